"""CIFAR-10 and CIFAR-100 in the two layouts of their home page: binary records, or pickles, read as data only.

Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

A binary record is one label (CIFAR-100: the coarse one, then the fine one) and 1,024 bytes each of red, green and blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import FileLayout, check_room, find_files, read_bytes, regular_size, wrong
from smofi.data.formats.pictures import picture_input
from smofi.data.formats.plain_pickle import read_plain_pickle

PIXELS = 3 * 32 * 32
MOST_RECORDS = 200_000
"""In one file; the largest official one has 50,000."""

MOST_BYTES = MOST_RECORDS * (PIXELS + 100)


@dataclass(frozen=True)
class _Kind:
    """One of the two data sets: how many labels a binary record begins with, and what pickles call things."""

    label_sizes: dict[str, int]
    names: str
    binary: FileLayout
    pickled: FileLayout

    @property
    def classes(self) -> int:
        return list(self.label_sizes.values())[-1]


def _layout(place: str, *names: str) -> FileLayout:
    return (place,), [(name,) for name in names]


# Training files, the test file, class names; the last label is the target.
_TEN = _Kind(
    label_sizes={"labels": 10},
    names="label_names",
    binary=_layout(
        "cifar-10-batches-bin", *(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin", "batches.meta.txt"
    ),
    pickled=_layout("cifar-10-batches-py", *(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"),
)
_HUNDRED = _Kind(
    label_sizes={"coarse_labels": 20, "fine_labels": 100},
    names="fine_label_names",
    binary=_layout("cifar-100-binary", "train.bin", "test.bin", "fine_label_names.txt"),
    pickled=_layout("cifar-100-python", "train", "test", "meta"),
)


def find_cifar10(folder: Path) -> DataFiles:
    """CIFAR-10: `[samples, 32, 32, 3]`, in the official order, which is a random one.

    Five training files, the test file and the names of the classes; binary ones if both layouts are there.

    >>> find_cifar10(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    return _find(folder, _TEN)


def find_cifar100(folder: Path) -> DataFiles:
    """CIFAR-100 with its fine labels: `[samples, 32, 32, 3]`, in the official order, which is a random one.

    The training file, the test file and the names of the classes; binary ones if both layouts are there.

    >>> find_cifar100(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    return _find(folder, _HUNDRED)


def _find(folder: Path, kind: _Kind) -> DataFiles:
    files = find_files(folder, [kind.binary, kind.pickled])
    return DataFiles(files, partial(_read, files, kind))


def _read(files: list[Path], kind: _Kind, progress: ReadProgress) -> Decoded:
    *batches, meta = files
    binary = meta.suffix == ".txt"
    names = _names_in_text(meta) if binary else _names_in_pickle(meta, kind)
    if len(names) != kind.classes or len(set(names)) != len(names):
        wrong(meta, f"{kind.classes} names of classes, no two the same, but it has {len(names)}")
    sizes = [min(regular_size(path, "a file of pictures"), MOST_BYTES) for path in batches]
    size, times = sum(sizes), 2 if binary else 4
    check_room(meta.parent, times * size, f"reading {size:,} bytes of pictures takes {times} x as much")
    read = _read_binary if binary else _read_pickle
    images, labels = [], []
    for number, path in enumerate(batches, start=1):
        planes, targets = read(path, kind)
        images.append(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
        labels.append(targets)
        progress(number, len(batches))
    train = Split(np.concatenate(images[:-1]), np.concatenate(labels[:-1]))
    raw_input = picture_input(train.inputs.shape[1:])
    return Decoded("image", train, Split(images[-1], labels[-1]), tuple(names), raw_input=raw_input)


def _read_binary(path: Path, kind: _Kind) -> tuple[Array, Array]:
    before = len(kind.label_sizes)
    record = before + PIXELS
    content = read_bytes(path, MOST_RECORDS * record, f"records of {record:,} bytes")
    if not content or len(content) % record:
        wrong(path, f"whole records of {record:,} bytes, but it has {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    targets = [_targets(path, records[:, k], *item) for k, item in enumerate(kind.label_sizes.items())]
    return records[:, before:], targets[-1]


def _read_pickle(path: Path, kind: _Kind) -> tuple[Array, Array]:
    batch = _dict_in_pickle(path)
    planes = batch.get("data")
    if not isinstance(planes, np.ndarray) or planes.dtype != np.uint8 or planes.ndim != 2 or planes.shape[1] != PIXELS:
        wrong(path, f"under 'data' bytes of shape [samples, {PIXELS}]")
    if len(planes) > MOST_RECORDS:
        wrong(path, f"at most {MOST_RECORDS:,} samples, but it has {len(planes):,}")
    targets = [_targets(path, batch.get(name), name, classes) for name, classes in kind.label_sizes.items()]
    if any(len(some) != len(planes) for some in targets):
        wrong(path, f"{len(planes):,} labels, as many as pictures, but it has {len(targets[-1]):,}")
    return planes, targets[-1]


def _targets(path: Path, labels: Any, name: str, classes: int) -> Array:
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        labels = np.array(labels, np.int64)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1:
        wrong(path, f"under {name!r} a list of whole numbers")
    if (outside := (labels < 0) | (labels >= classes)).any():
        where = int(outside.argmax())
        wrong(path, f"{name} from 0 to {classes - 1}, but that of sample {where:,} is {int(labels[where])}")
    return labels.astype(np.int64)


def _names_in_text(path: Path) -> list[str]:
    try:
        text = read_bytes(path, 100_000, "a name of a class per line").decode()
    except UnicodeDecodeError:
        wrong(path, "a name of a class per line, in UTF-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _names_in_pickle(path: Path, kind: _Kind) -> Sequence[str]:
    names = _dict_in_pickle(path).get(kind.names)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        wrong(path, f"under {kind.names!r} a list of names")
    return names


def _dict_in_pickle(path: Path) -> dict[str, Any]:
    found = read_plain_pickle(read_bytes(path, MOST_BYTES, "a pickle"), path)
    if not isinstance(found, dict):
        wrong(path, f"a pickled dict, but it contains a {type(found).__name__}")
    # Written by Python 2 and once loaded as bytes, keys are bytes.
    return {key.decode("latin-1") if isinstance(key, bytes) else str(key): value for key, value in found.items()}
