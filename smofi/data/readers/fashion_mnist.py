"""Fashion-MNIST, and whatever else comes as MNIST did: four idx files, packed or not.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import check_room, find_files, wrong
from smofi.data.formats.idx import IdxHeader, read_idx, read_idx_header
from smofi.data.formats.pictures import picture_input

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
LABEL = 9
"""Bytes of memory for a label, as it is read and as an int64."""

PLACES = ("fashion-mnist", "FashionMNIST/raw", "raw")


def find_fashion_mnist(folder: Path) -> DataFiles:
    """Fashion-MNIST: `[samples, 28, 28, 1]`, in the official order, which is a random one.

    Pictures and labels to train on, then those to test on (t10k).

    >>> find_fashion_mnist(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    stems = [("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1)]
    names = [[f"{stem}{dot}idx{axes}-ubyte{end}" for end in ("", ".gz") for dot in "-."] for stem, axes in stems]
    files = find_files(folder, [(PLACES, names)])
    return DataFiles(files, partial(_read, files))


def _read(files: list[Path], progress: ReadProgress) -> Decoded:
    headers = [read_idx_header(path, axes) for path, axes in zip(files, (3, 1, 3, 1), strict=True)]
    for images, labels in (headers[:2], headers[2:]):
        _check_alike(images, labels)
    if headers[0].shape[1:] != headers[2].shape[1:]:
        size, other = ("x".join(map(str, headers[k].shape[1:])) for k in (0, 2))
        wrong(files[2], f"pictures of {size} as in {files[0].name}, but they are {other}")
    arrays = []
    for number, header in enumerate(headers, start=1):
        arrays.append(read_idx(header))
        progress(number, len(files))
    train, test = (_split(arrays[k], arrays[k + 1], files[k + 1]) for k in (0, 2))
    return Decoded("image", train, test, CLASSES, raw_input=picture_input(train.inputs.shape[1:]))


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


def _split(images: Array, labels: Array, labels_path: Path) -> Split:
    if labels.max() >= len(CLASSES):
        wrong(labels_path, f"labels from 0 to {len(CLASSES) - 1}, but one is {labels.max()}")
    return Split(images[..., None], labels.astype(np.int64))
