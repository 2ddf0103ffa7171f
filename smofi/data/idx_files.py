"""Read data sets that come as MNIST did: idx files of pictures and labels, packed or not, to train on and to test on.

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
from smofi.data.outside import check_room, find_files, read_bytes, wrong
from smofi.data.pictures import picture_input
from smofi.data.tables import hold_out, say_held_out

MOST_BYTES = 2**31
"""In one file, unpacked; the largest of Fashion-MNIST has 47 million."""

NAME = re.compile(r"(?P<prefix>.*?)(?P<split>train|t10k|test)-(?P<what>images|labels)[-.]idx[13]-ubyte(\.gz)?")

# --------------------------------------------------------------------------------------------------------------------
# The idx format, in which MNIST came: arrays of bytes, packed by gzip or not.


def read_idx(path: Path, axes: int, most: int = MOST_BYTES) -> Array:
    """Read an idx file of bytes with this number of axes, and of at most so many bytes."""
    content, start = read_bytes(path, most, "an idx file"), 4 + 4 * axes
    if len(content) < start or content[:4] != bytes((0, 0, 8, axes)):
        begins = content[:4].hex(" ") or "nothing"
        wrong(path, f"an idx file that begins with 00 00 08 {axes:02x}, but it begins with {begins}")
    shape = tuple(int(side) for side in np.frombuffer(content[4:start], ">u4"))
    announced, needed = " x ".join(f"{side:,}" for side in shape), start + math.prod(shape)
    if needed == start:
        wrong(path, f"one byte or more, but it announces {announced}")
    if len(content) != needed:
        wrong(path, f"{needed:,} bytes for the {announced} it announces, but it has {len(content):,}")
    check_room(path, 2 * needed, f"reading it takes 2 x {needed:,} bytes")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


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
    read: list[tuple[Array, Array]] = []
    for number, (path, labelled) in enumerate(zip(files[::2], files[1::2], strict=True)):
        images = read_idx(path, 3)[..., None]
        progress(2 * number + 1, len(files))
        labels = read_idx(labelled, 1, 8 + len(images)).astype(np.int64)
        progress(2 * number + 2, len(files))
        if len(labels) != len(images):
            wrong(labelled, f"{len(images):,} labels, as many as {path.name} has pictures, but it has {len(labels):,}")
        if read and images.shape[1:] != read[0][0].shape[1:]:
            size, other = ("x".join(map(str, some.shape[1:3])) for some in (read[0][0], images))
            wrong(path, f"pictures of {size} as in {files[0].name}, but they are {other}")
        read.append((images, labels))
    return read


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
