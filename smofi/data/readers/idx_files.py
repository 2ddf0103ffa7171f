"""Data sets that come as MNIST did: idx files of pictures and labels, packed or not, to train on and to test on.

train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte     MNIST
emnist-letters-train-images-idx3-ubyte.gz, ..., emnist-letters-test-labels-idx1-ubyte.gz             EMNIST
"""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import check_room, wrong
from smofi.data.formats.idx import IdxHeader, read_idx, read_idx_header
from smofi.data.formats.labels import hold_out, say_held_out
from smofi.data.formats.pictures import picture_input

NAME = re.compile(r"(?P<prefix>.*?)(?P<split>train|t10k|test)-(?P<what>images|labels)[-.]idx[13]-ubyte(\.gz)?")
LABEL = 9
"""Bytes of memory for a label, as it is read and as an int64."""


def idx_prefix(path: Path) -> str | None:
    """What the names of a data set's idx files begin with; None if it is no such name.

    >>> idx_prefix(Path("emnist-letters-test-images-idx3-ubyte.gz")), idx_prefix(Path("a.png"))
    ('emnist-letters-', None)
    """
    match = NAME.fullmatch(path.name)
    return match and match["prefix"]


def find_idx(folder: Path, files: list[Path], prefix: str | None = None) -> DataFiles:
    """The data set whose files begin with this, or the only one in the folder. Classes are named by their numbers."""
    prefixes = sorted({one for path in files if (one := idx_prefix(path)) is not None})
    if prefix is None and len(prefixes) > 1:
        some = ", ".join(map(repr, prefixes[:10]))
        wrong(
            folder,
            f"the idx files of one data set, but their names begin with {some}: name a file of the one that is meant",
        )
    chosen = prefixes[0] if prefix is None else prefix
    if chosen not in prefixes:
        wrong(folder, "an idx file whose name does not begin with a point, as hidden files are not read")
    found: dict[tuple[str, str], Path] = {}
    for path in files:  # in the order of their names: unpacked before packed
        if (match := NAME.fullmatch(path.name)) and match["prefix"] == chosen:
            found.setdefault(("train" if match["split"] == "train" else "test", match["what"]), path)
    for (split, what), path in found.items():
        other, axes = ("labels", 1) if what == "images" else ("images", 3)
        if (split, other) not in found:
            wanted = path.name.replace(what, other).replace(f"idx{4 - axes}", f"idx{axes}")
            wrong(folder, f"{wanted} beside {path.name}")
    if ("train", "images") not in found:
        wrong(folder, f"{chosen}train-images-idx3-ubyte and its labels beside {min(found.values()).name}")
    splits = [split for split in ("train", "test") if (split, "images") in found]
    paths = [found[split, what] for split in splits for what in ("images", "labels")]
    return DataFiles(paths, partial(_read, folder, paths))


def read_idx_files(files: list[Path], progress: ReadProgress) -> list[tuple[Array, Array]]:
    """Pictures `[samples, height, width, 1]` and labels, of one split or of two, whose pictures are of one size."""
    axes = (3, 1) * (len(files) // 2)
    headers = [read_idx_header(path, axis) for path, axis in zip(files, axes, strict=True)]
    for k in range(0, len(headers), 2):
        _check_alike(headers[k], headers[k + 1])
    if headers[0].shape[1:] != headers[-2].shape[1:]:
        size, other = ("x".join(map(str, headers[k].shape[1:])) for k in (0, -2))
        wrong(files[-2], f"pictures of {size} as in {files[0].name}, but they are {other}")
    arrays = []
    for number, header in enumerate(headers, start=1):
        arrays.append(read_idx(header))
        progress(number, len(files))
    return [(arrays[k][..., None], arrays[k + 1].astype(np.int64)) for k in range(0, len(arrays), 2)]


def _read(folder: Path, files: list[Path], progress: ReadProgress) -> Decoded:
    (images, labels), *test = read_idx_files(files, progress)
    known = np.unique(labels)
    if len(known) < 2:
        wrong(files[1], f"at least two classes, but there is only {known[0]}")
    train = Split(images, np.searchsorted(known, labels))
    if test:
        strange = np.setdiff1d(test[0][1], known)
        if len(strange):
            wrong(files[3], f"only classes that are in {files[1].name} too, but there is {strange[0]}")
        split, where = Split(test[0][0], np.searchsorted(known, test[0][1])), files[2].name
    else:
        kept, held_out = hold_out(train.targets, str(folder))
        train, split = (Split(images[rows], train.targets[rows]) for rows in (kept, held_out))
        where = say_held_out("pictures", "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte")
    return Decoded(
        "image",
        train,
        split,
        tuple(str(number) for number in known),
        about={"test": where},
        raw_input=picture_input(images.shape[1:]),
    )


def _check_alike(images: IdxHeader, labels: IdxHeader) -> None:
    """As many labels as pictures, and no more of both than fit into memory."""
    count = images.shape[0]
    if labels.shape[0] != count:
        wrong(
            labels.path,
            f"{count:,} labels, as many as {images.path.name} has pictures, but it has {labels.shape[0]:,}",
        )
    needed = math.prod(images.shape) + LABEL * count
    check_room(images.path, needed, f"it announces {images.sizes} bytes, and {LABEL} x {count:,} for labels")
