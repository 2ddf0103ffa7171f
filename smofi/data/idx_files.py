"""Read data sets that come as MNIST did: idx files of pictures and labels, packed or not, to train on and to test on.

train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte     MNIST
emnist-letters-train-images-idx3-ubyte.gz, ..., emnist-letters-test-labels-idx1-ubyte.gz             EMNIST
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.outside import MOST_INFLATED, PIECE, check_room, find_files, regular_size, wrong
from smofi.data.pictures import picture_input
from smofi.data.tables import hold_out, say_held_out

MOST_BYTES = 2**31
"""In one file, unpacked; the largest of Fashion-MNIST has 47 million."""

LABEL = 9
"""Bytes of memory for a label, as it is read and as an int64."""

NAME = re.compile(r"(?P<prefix>.*?)(?P<split>train|t10k|test)-(?P<what>images|labels)[-.]idx[13]-ubyte(\.gz)?")

# --------------------------------------------------------------------------------------------------------------------
# The idx format, in which MNIST came: arrays of bytes, packed by gzip or not.


@dataclass(frozen=True)
class IdxHeader:
    """The shape that a file announces; `start` is where its bytes begin."""

    path: Path
    shape: tuple[int, ...]
    start: int

    @property
    def sizes(self) -> str:
        """The shape, to be shown."""
        return " x ".join(f"{size:,}" for size in self.shape)


def read_idx_header(path: Path, axes: int) -> IdxHeader:
    """Read the header of an idx file with this number of axes, if it announces what can be in the file."""
    start = 4 + 4 * axes
    size = regular_size(path, "an idx file")
    with _opened(path) as file:
        header = file.read(start)
    if len(header) < start or header[:4] != bytes((0, 0, 8, axes)):
        wrong(
            path,
            f"an idx file that begins with 00 00 08 {axes:02x}, but it begins with {header[:4].hex(' ') or 'nothing'}",
        )
    found = IdxHeader(path, tuple(int(side) for side in np.frombuffer(header[4:], ">u4")), start)
    needed = start + math.prod(found.shape)
    if needed == start or needed > MOST_BYTES:
        wrong(path, f"1 to {MOST_BYTES:,} bytes, but it announces {found.sizes}")
    if needed > size * MOST_INFLATED if path.suffix == ".gz" else needed != size:
        wrong(path, f"{needed:,} bytes for the {found.sizes} it announces, but it has {size:,}")
    return found


def read_idx(header: IdxHeader) -> Array:
    """Read the bytes that a file announces."""
    path = header.path
    array = np.empty(header.shape, np.uint8)
    content, done = array.data.cast("B"), 0
    with _opened(path) as file:
        file.read(header.start)
        while done < len(content) and (some := file.readinto(content[done : done + PIECE])):
            done += some
        more = len(file.read(1))  # at the end, gzip compares the checksum
    if done + more != len(content):
        found = f"{header.start + done:,}" if done < len(content) else "more"
        wrong(path, f"{header.start + len(content):,} bytes for the {header.sizes} it announces, but it has {found}")
    return array


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"an idx file ({getattr(error, 'strerror', None) or error})")


# --------------------------------------------------------------------------------------------------------------------
# Data sets that come as MNIST did: idx files of pictures and labels, packed or not, to train on and to test on.


def idx_prefix(path: Path) -> str | None:
    """Return what the names of a data set's idx files begin with; None if it is no such name."""
    match = NAME.fullmatch(path.name)
    return match and match["prefix"]


def find_idx(folder: Path, files: list[Path], prefix: str | None = None) -> DataFiles:
    """Find the data set whose files begin with this, or the only one; classes are named by their numbers."""
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
    """Read pictures of one size, `[samples, height, width, 1]`, and labels, of one split or of two."""
    axes = (3, 1) * (len(files) // 2)
    headers = [read_idx_header(path, axis) for path, axis in zip(files, axes, strict=True)]
    for images, labels in zip(headers[::2], headers[1::2], strict=True):
        count = images.shape[0]
        if labels.shape[0] != count:
            expected = f"{count:,} labels, as many as {images.path.name} has pictures"
            wrong(labels.path, f"{expected}, but it has {labels.shape[0]:,}")
        needed = math.prod(images.shape) + LABEL * count
        check_room(images.path, needed, f"it announces {images.sizes} bytes, and {LABEL} x {count:,} for labels")
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
        train, split = train[kept], train[held_out]
        where = say_held_out("pictures", "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte")
    names = tuple(str(number) for number in known)
    return Decoded("image", train, split, names, about={"test": where}, raw_input=picture_input(images.shape[1:]))


# --------------------------------------------------------------------------------------------------------------------
# Fashion-MNIST: four idx files, packed or not. Other data sets in such files are read by `idx_files`.

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FIRST_LABELS = ([9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [9, 2, 1, 1, 6, 1, 4, 6, 5, 7])
"""Of the official training set and of the official test set."""

WARNING = (
    "the first labels are not those of Fashion-MNIST; if this is another data set, name its folder as folder:PATH, "
    "which calls the classes by their numbers"
)
PLACES = ("fashion-mnist", "FashionMNIST/raw", "raw")


def find_fashion_mnist(folder: Path) -> DataFiles:
    """Find Fashion-MNIST: `[samples, 28, 28, 1]`, in the official order, which is a random one."""
    stems = [("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1)]
    names = [[f"{stem}{dot}idx{axes}-ubyte{end}" for end in ("", ".gz") for dot in "-."] for stem, axes in stems]
    files = find_files(folder, [(PLACES, names)])
    return DataFiles(files, partial(_images_and_labels, files))


def _images_and_labels(files: list[Path], progress: ReadProgress) -> Decoded:
    train, test = (Split(*arrays) for arrays in read_idx_files(files, progress))
    for split, path in ((train, files[1]), (test, files[3])):
        if split.targets.max() >= len(CLASSES):
            wrong(path, f"labels from 0 to {len(CLASSES) - 1}, but one is {split.targets.max()}")
    official = (train.targets[:10].tolist(), test.targets[:10].tolist()) == FIRST_LABELS
    about = {} if official else {"warning": WARNING}
    return Decoded("image", train, test, CLASSES, about=about, raw_input=picture_input(train.inputs.shape[1:]))
