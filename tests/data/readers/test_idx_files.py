"""idx files of any data set, by `folder:`: MNIST, EMNIST and their like, classes named by their numbers."""

from __future__ import annotations

import gzip
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from smofi.data import load
from smofi.data.decoded import silent
from smofi.data.readers.folder import find_folder
from smofi.data.readers.idx_files import FIRST_LABELS
from smofi.errors import DataWarning, InputError

MNIST = ("train-{}", "t10k-{}")
EMNIST = ("emnist-letters-train-{}", "emnist-letters-test-{}")


def write(folder: Path, names: tuple[str, ...], labels: list[list[int]], *, end: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in zip(names, labels, strict=True):
        images = np.repeat(np.array(some, np.uint8), 6)
        for what, shape, content in (
            ("images-idx3-ubyte", (len(some), 2, 3), images),
            ("labels-idx1-ubyte", (len(some),), np.array(some, np.uint8)),
        ):
            raw = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + content.tobytes()
            path = folder / (name.format(what) + end)
            path.write_bytes(gzip.compress(raw) if end else raw)


@pytest.mark.parametrize("names", [MNIST, EMNIST])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_classes_are_the_numbers(tmp_path: Path, names: tuple[str, ...], end: str) -> None:
    write(tmp_path, names, [[3, 1, 26, 1], [26, 3]], end=end)
    decoded = find_folder(tmp_path).read(silent)
    assert decoded.classes == ("1", "3", "26")
    for split in (decoded.train, decoded.test):
        assert [int(decoded.classes[k]) for k in split.targets] == split.inputs[:, 1, 2, 0].tolist()
    assert decoded.about == {"test": names[1].format("images-idx3-ubyte") + end}
    assert load(f"folder:{tmp_path}").remarks[-1] == (
        "not tested: '1', of which the test set has no sample; add some to it"
    )


def test_one_of_several_by_naming_a_file_of_it(tmp_path: Path) -> None:
    write(tmp_path, EMNIST, [[1, 2], [1]])
    write(tmp_path, tuple(name.replace("letters", "digits") for name in EMNIST), [[8, 9], [9]])
    with pytest.raises(
        InputError, match=r"one data set, but their names begin with 'emnist-digits-', 'emnist-letters-'"
    ):
        find_folder(tmp_path)
    decoded = find_folder(tmp_path / "emnist-digits-train-images-idx3-ubyte").read(silent)
    assert decoded.classes == ("8", "9")
    hidden = (tmp_path / "emnist-digits-train-images-idx3-ubyte").rename(tmp_path / ".train-images-idx3-ubyte")
    with pytest.raises(InputError, match="an idx file whose name does not begin with a point"):
        find_folder(hidden)


def test_without_a_test_set_a_fifth_is_held_out_and_it_is_said_what_would_help(tmp_path: Path) -> None:
    write(tmp_path, MNIST[:1], [[0, 1] * 10])
    decoded = find_folder(tmp_path).read(silent)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (16, 4)
    assert decoded.about["test"].endswith("yourself, add t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte")
    assert (decoded.train.inputs[:, 0, 0, 0] == decoded.train.targets).all()


@pytest.mark.parametrize(
    ("removed", "said"),
    [
        ("train-labels-idx1-ubyte", "train-labels-idx1-ubyte beside train-images-idx3-ubyte"),
        ("t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte beside t10k-labels-idx1-ubyte"),
        ("train", "train-images-idx3-ubyte and its labels beside t10k-images-idx3-ubyte"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, removed: str, said: str) -> None:
    write(tmp_path, MNIST, [[0, 1], [1]])
    for path in tmp_path.glob(f"{removed}*"):
        path.unlink()
    with pytest.raises(InputError, match=f"{tmp_path} is not accepted: expected {said}$"):
        find_folder(tmp_path)


@pytest.mark.parametrize(
    ("labels", "said"),
    [([[7, 7], [7]], "at least two classes, but there is only 7"), ([[0, 1], [2]], "only classes that are in .* is 2")],
)
def test_classes_that_cannot_be_used_are_refused(tmp_path: Path, labels: list[list[int]], said: str) -> None:
    write(tmp_path, MNIST, labels)
    with pytest.raises(InputError, match=rf"-labels-idx1-ubyte is not accepted: expected {said}"):
        find_folder(tmp_path).read(silent)


def test_what_is_read_as_fashion_mnist_but_is_not_is_warned_of(tmp_path: Path) -> None:
    write(tmp_path / "digits", MNIST, [[5, 0, 4, 1, 9, 2, 1, 3, 1, 4], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]])
    with pytest.warns(DataWarning, match=r"^data='fashion-mnist': the first labels are not .* folder:PATH"):
        load("fashion-mnist", folder=tmp_path / "digits")
    write(tmp_path / "fashion", MNIST, list(FIRST_LABELS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("fashion-mnist", folder=tmp_path / "fashion")
