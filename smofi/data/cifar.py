"""CIFAR-10 and CIFAR-100 in the two layouts of their home page: binary records, or pickles.

Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

A binary record is one label (CIFAR-100: the coarse one, then the fine one) and 1,024 bytes each of red, green and blue.
A pickle is read only if it is the official file, by its published MD5, and makes nothing but dicts, lists and arrays.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.outside import FileLayout, check_room, find_files, read_bytes, read_lines, regular_size, wrong
from smofi.data.pictures import picture_input

PIXELS = 3 * 32 * 32
MOST_BYTES = 200_000 * (PIXELS + 100)
"""In one file; the largest official one has 50,000 pictures."""

MD5 = {
    "cifar-10-batches-py": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    "cifar-100-python": {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
}
"""Of the official pickles, by folder: training files, the test file, names of classes."""

PICKLED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
"""All that the official pickles call."""


@dataclass(frozen=True)
class _Kind:
    """One of the two data sets: how many labels a binary record begins with, and what pickles call things."""

    label_sizes: dict[str, int]
    names: str
    binary: FileLayout
    pickled: str

    @property
    def classes(self) -> int:
        """How many classes the last label, which is the target, has."""
        return list(self.label_sizes.values())[-1]


_BATCHES = [(f"data_batch_{k}.bin",) for k in range(1, 6)]
_TEN = _Kind(
    {"labels": 10},
    "label_names",
    (("cifar-10-batches-bin",), [*_BATCHES, ("test_batch.bin",), ("batches.meta.txt",)]),
    "cifar-10-batches-py",
)
_HUNDRED = _Kind(
    {"coarse_labels": 20, "fine_labels": 100},
    "fine_label_names",
    (("cifar-100-binary",), [("train.bin",), ("test.bin",), ("fine_label_names.txt",)]),
    "cifar-100-python",
)


def find_cifar10(folder: Path) -> DataFiles:
    """Find CIFAR-10: `[samples, 32, 32, 3]`, in the official order, which is a random one; the binary layout first."""
    return _find(folder, _TEN)


def find_cifar100(folder: Path) -> DataFiles:
    """Find CIFAR-100 with its fine labels, as `find_cifar10` does CIFAR-10."""
    return _find(folder, _HUNDRED)


def _find(folder: Path, kind: _Kind) -> DataFiles:
    files = find_files(folder, [kind.binary, ((kind.pickled,), [(name,) for name in MD5[kind.pickled]])])
    return DataFiles(files, partial(_read, files, kind))


def _read(files: list[Path], kind: _Kind, progress: ReadProgress) -> Decoded:
    *batches, meta = files
    binary = meta.suffix == ".txt"
    names = read_lines(meta, 100_000, "a name of a class per line") if binary else _unpickled(meta, kind)[kind.names]
    if len(names) != kind.classes or len(set(names)) != len(names):
        wrong(meta, f"{kind.classes} names of classes, no two the same, but it has {len(names)}")
    size = sum(min(regular_size(path, "a file of pictures"), MOST_BYTES) for path in batches)
    times = 2 if binary else 4
    check_room(meta.parent, times * size, f"reading {size:,} bytes of pictures takes {times} x as much")
    images, labels = [], []
    for number, path in enumerate(batches, start=1):
        if binary:
            planes, targets = _records(path, kind)
        else:
            batch = _unpickled(path, kind)
            planes, targets = batch["data"], np.array(batch[list(kind.label_sizes)[-1]])
        images.append(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
        labels.append(targets.astype(np.int64))
        progress(number, len(batches))
    train = Split(np.concatenate(images[:-1]), np.concatenate(labels[:-1]))
    raw_input = picture_input(train.inputs.shape[1:])
    return Decoded("image", train, Split(images[-1], labels[-1]), tuple(names), raw_input=raw_input)


def _records(path: Path, kind: _Kind) -> tuple[Array, Array]:
    """Read pictures and targets of a binary file."""
    before = len(kind.label_sizes)
    content = read_bytes(path, MOST_BYTES, f"records of {before + PIXELS:,} bytes")
    if not content or len(content) % (before + PIXELS):
        wrong(path, f"whole records of {before + PIXELS:,} bytes, but it has {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, before + PIXELS)
    for column, (name, classes) in enumerate(kind.label_sizes.items()):
        if (outside := records[:, column] >= classes).any():
            row = int(outside.argmax())
            wrong(path, f"{name} from 0 to {classes - 1}, but that of sample {row:,} is {records[row, column]}")
    return records[:, before:], records[:, before - 1]


def _unpickled(path: Path, kind: _Kind) -> dict[str, Any]:
    """Read an official pickle; refuse another one before anything of it is looked at."""
    content = read_bytes(path, MOST_BYTES, "a pickle")
    found, expected = hashlib.md5(content, usedforsecurity=False).hexdigest(), MD5[kind.pickled][path.name]
    if found != expected:
        wrong(path, f"the official file, of MD5 {expected}, but it has {found}; the binary layout is read in any form")
    try:
        read = _NumbersAlone(io.BytesIO(content), encoding="latin1").load()
        return {str(key): value for key, value in read.items()}
    except Exception as error:
        wrong(path, f"a pickled dict of lists and arrays ({str(error)[:100]})")


class _NumbersAlone(pickle.Unpickler):
    """Know NumPy's names for an array, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PICKLED:
            raise pickle.UnpicklingError(f"it has the name {f'{module} {name}'[:100]!r}")
        return super().find_class(module, name)
