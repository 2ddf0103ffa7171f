"""Fashion-MNIST, and whatever else comes as MNIST did: four idx files, packed or not.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import find_files, wrong
from smofi.data.formats.idx import read_idx

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
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
    arrays = []
    for number, (path, axes) in enumerate(zip(files, (3, 1, 3, 1), strict=True), start=1):
        arrays.append(read_idx(path, axes))
        progress(number, len(files))
    train, test = (_split(arrays[k], arrays[k + 1], files[k], files[k + 1]) for k in (0, 2))
    if train.inputs.shape[1:] != test.inputs.shape[1:]:
        size, other = ("x".join(map(str, split.inputs.shape[1:3])) for split in (train, test))
        wrong(files[2], f"pictures of {size} as in {files[0].name}, but they are {other}")
    return Decoded("image", train, test, CLASSES)


def _split(images: Array, labels: Array, images_path: Path, labels_path: Path) -> Split:
    if len(labels) != len(images):
        wrong(
            labels_path,
            f"{len(images):,} labels, as many as {images_path.name} has pictures, but it has {len(labels):,}",
        )
    if labels.max() >= len(CLASSES):
        wrong(labels_path, f"labels from 0 to {len(CLASSES) - 1}, but one is {labels.max()}")
    return Split(images[..., None].copy(), labels.astype(np.int64))
