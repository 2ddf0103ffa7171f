"""Fashion-MNIST: four idx files, packed or not. Other data sets in such files are read by `idx_files`.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from smofi.data.decoded import DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import find_files, wrong
from smofi.data.formats.pictures import picture_input
from smofi.data.readers.idx_files import read_idx_files

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FIRST_LABELS = ([9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [9, 2, 1, 1, 6, 1, 4, 6, 5, 7])
"""Of the official training set and of the official test set."""

WARNING = (
    "the first labels are not those of Fashion-MNIST; if this is another data set, name its folder as folder:PATH, "
    "which calls the classes by their numbers"
)
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
    train, test = (Split(*arrays) for arrays in read_idx_files(files, progress))
    for split, path in ((train, files[1]), (test, files[3])):
        if split.targets.max() >= len(CLASSES):
            wrong(path, f"labels from 0 to {len(CLASSES) - 1}, but one is {split.targets.max()}")
    official = (train.targets[:10].tolist(), test.targets[:10].tolist()) == FIRST_LABELS
    about = {} if official else {"warning": WARNING}
    return Decoded("image", train, test, CLASSES, about=about, raw_input=picture_input(train.inputs.shape[1:]))
