"""Images brought to another size once, kept in the folder of their data set."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from smofi.data.cache.arrays import Arrays, Damaged, read_arrays, write_arrays
from smofi.data.cache.promises import check_finite
from smofi.data.cache.unfinished import clear_abandoned, discard
from smofi.data.decoded import Array
from smofi.errors import CacheWarning

IMAGES = "images"


@dataclass(frozen=True, eq=False)
class ResizedImages:
    """Keeps resized images of a split in a folder; `inputs` are those that they are made from, of this checksum.

    Of each size, one selection of rows is kept: another one replaces it. They go when the data set's folder goes.
    """

    folder: Path
    split: str
    inputs: Array
    checksum: str

    def keep(self, side: int, rows: Array, resize: Callable[[], Array], some: Array | None = None) -> Array:
        """What `resize` makes of these rows, from the folder if it was made before.

        `some` of the rows are taken from all of them where those are kept, and otherwise kept beside them.
        """
        clear_abandoned(self.folder)
        if (found := self._find(self.split, side, rows)) is not None:
            return found if some is None else found[some]
        name = self.split
        if some is not None:
            name, rows = f"{self.split}.some", rows[some]
            if (found := self._find(name, side, rows)) is not None:
                return found
        images = resize()
        with suppress(OSError):  # as in `cached`: then it is resized again next time
            self._store(name, side, rows, images)
            found = self._find(name, side, rows)
        return images if found is None else found

    def _find(self, name: str, side: int, rows: Array) -> Array | None:
        place, of = self._place_and_owner(name, side, rows)
        try:
            return read_arrays(place, of, lambda found: self._images(found, len(rows), side))
        except Damaged as damage:
            warnings.warn(f"{place} is damaged ({damage}): its images are resized anew", CacheWarning, stacklevel=2)
            discard(place)
            return None

    def _store(self, name: str, side: int, rows: Array, images: Array) -> None:
        place, of = self._place_and_owner(name, side, rows)
        write_arrays(place, of, {IMAGES: images}, {})
        for old in self.folder.glob(place.name.rpartition("-")[0] + "-*"):
            if old != place:
                discard(old)

    def _place_and_owner(self, name: str, side: int, rows: Array) -> tuple[Path, str]:
        """Where these rows of this size are kept, and what they belong to."""
        chosen = hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()
        return self.folder / f"{name}.inputs.{side}-{chosen[:12]}", f"{self.checksum} {side} {chosen}"

    def _images(self, found: Arrays, count: int, side: int) -> Array:
        images = found.arrays[IMAGES]
        if images.shape != (count, side, side, self.inputs.shape[3]) or images.dtype != self.inputs.dtype:
            raise ValueError(f"its images have shape {list(images.shape)} and type {images.dtype}")
        if IMAGES in found.read:
            check_finite(IMAGES, images)
        return images
