from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data.decoded import DataFiles, Decoded, silent
from smofi.data.readers.cifar import find_cifar10, find_cifar100
from smofi.errors import InputError

TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HUNDRED = tuple(f"fine {k}" for k in range(100))
BATCHES = [f"data_batch_{k}" for k in range(1, 6)]


def planes(samples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(samples, 3072), dtype=np.uint8)


def labels(samples: int, classes: int, seed: int) -> list[int]:
    return [(7 * k + seed) % classes for k in range(samples)]


def write_ten(folder: Path, form: str, samples: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([*BATCHES, "test_batch"]):
        pixels, targets = planes(samples, seed), labels(samples, 10, seed)
        if form == "binary":
            records = b"".join(bytes([label]) + row.tobytes() for label, row in zip(targets, pixels, strict=True))
            (folder / f"{name}.bin").write_bytes(records)
        else:
            batch = {"batch_label": name, "labels": targets, "data": pixels, "filenames": ["a.png"] * samples}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    if form == "binary":
        (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    else:
        (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list(TEN), "num_vis": 3072}, protocol=2))


def write_hundred(folder: Path, form: str, sizes: tuple[int, int] = (5, 2)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, samples) in enumerate(zip(("train", "test"), sizes, strict=True)):
        pixels, fine, coarse = planes(samples, seed), labels(samples, 100, seed), labels(samples, 20, seed)
        if form == "binary":
            rows = zip(coarse, fine, pixels, strict=True)
            (folder / f"{name}.bin").write_bytes(b"".join(bytes([c, f]) + row.tobytes() for c, f, row in rows))
        else:
            batch = {b"data": pixels, b"fine_labels": fine, b"coarse_labels": coarse}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=4))
    if form == "binary":
        (folder / "fine_label_names.txt").write_text("\n".join(HUNDRED))
    else:
        (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": list(HUNDRED)}, protocol=4))


def assert_images(found: np.ndarray, pixels: np.ndarray) -> None:
    assert (found.shape, found.dtype) == ((len(pixels), 32, 32, 3), np.uint8)
    # A plane lies row by row: red first, then green, then blue.
    for sample, row, column, channel in [(0, 0, 0, 0), (0, 0, 1, 0), (1, 31, 7, 1), (len(pixels) - 1, 5, 31, 2)]:
        assert found[sample, row, column, channel] == pixels[sample, 1024 * channel + 32 * row + column]
    assert found.astype(np.int64).sum() == pixels.astype(np.int64).sum()


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-{}"])
@pytest.mark.parametrize("form", ["binary", "pickled"])
def test_cifar10(tmp_path: Path, form: str, inside: str) -> None:
    write_ten(tmp_path / inside.format("bin" if form == "binary" else "py"), form)
    told: list[tuple[int, int]] = []
    found = find_cifar10(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, found.standardise, found.owners) == ("image", TEN, True, ())
    assert_images(found.train.inputs, np.concatenate([planes(3, seed) for seed in range(5)]))
    assert_images(found.test.inputs, planes(3, 5))
    assert found.train.targets.tolist() == [label for seed in range(5) for label in labels(3, 10, seed)]
    assert found.test.targets.tolist() == labels(3, 10, 5)
    assert {found.train.targets.dtype, found.test.targets.dtype} == {np.dtype(np.int64)}
    assert all(array.flags.writeable for array in (found.train.inputs, found.train.targets, found.test.inputs))
    assert told == [(number, 6) for number in range(1, 7)]


@pytest.mark.parametrize("form", ["binary", "pickled"])
def test_cifar100_has_fine_classes(tmp_path: Path, form: str) -> None:
    write_hundred(tmp_path / ("cifar-100-binary" if form == "binary" else "cifar-100-python"), form)
    found = find_cifar100(tmp_path).read(silent)
    assert found.classes == HUNDRED
    assert_images(found.train.inputs, planes(5, 0))
    assert_images(found.test.inputs, planes(2, 1))
    assert (found.train.targets.tolist(), found.test.targets.tolist()) == (labels(5, 100, 0), labels(2, 100, 1))


def test_binary_files_come_first_and_only_the_ones_read_are_listed(tmp_path: Path) -> None:
    write_ten(tmp_path / "cifar-10-batches-py", "pickled")
    pickled = [tmp_path / "cifar-10-batches-py" / name for name in (*BATCHES, "test_batch", "batches.meta")]
    assert find_cifar10(tmp_path).paths == pickled
    write_ten(tmp_path / "cifar-10-batches-bin", "binary")
    names = [f"{name}.bin" for name in (*BATCHES, "test_batch")]
    assert find_cifar10(tmp_path).paths == [
        tmp_path / "cifar-10-batches-bin" / name for name in (*names, "batches.meta.txt")
    ]
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    assert find_cifar10(tmp_path).paths == pickled


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data_batch_1\.bin.*cifar-10-batches-bin.*cifar-10-batches-py.*none of them"):
        find_cifar10(tmp_path)
    with pytest.raises(InputError, match="absent is not accepted: expected a folder"):
        find_cifar100(tmp_path / "absent")
    write_ten(tmp_path / "cifar-10-batches-bin", "binary")
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(InputError, match=r"cifar-10-batches-bin is not accepted: expected data_batch_3\.bin as well"):
        find_cifar10(tmp_path).read(silent)
    with pytest.raises(InputError, match=r"train\.bin, test\.bin, fine_label_names\.txt"):
        find_cifar100(tmp_path)


# --------------------------------------------------------------------------------------------------------------- damage


def pickled(**changed: Any) -> bytes:
    good = {"data": planes(3, 0), "labels": [0, 1, 2]}
    return pickle.dumps({**good, **changed}, protocol=2)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_2.bin", bytes(3072), "whole records of 3,073 bytes, but it has 3,072 bytes"),
        ("data_batch_2.bin", b"", "but it has 0 bytes"),
        ("test_batch.bin", b"\x0a" + bytes(3072), "labels from 0 to 9, but that of sample 0 is 10"),
        ("batches.meta.txt", b"cat\ndog\n", "10 names of classes, no two the same, but it has 2"),
        ("batches.meta.txt", b"cat\n" * 10, "no two the same"),
        ("batches.meta.txt", b"\xff" * 10, "in UTF-8"),
        ("batches.meta.txt", b"a" * 100_001, "at most 100,000 bytes"),
        ("data_batch_2", pickled(data=[1, 2]), "under 'data' bytes of shape [samples, 3072]"),
        ("data_batch_2", pickled(data=np.zeros((3, 3071), np.uint8)), "under 'data' bytes of shape"),
        ("data_batch_2", pickled(data=np.zeros((3, 3072), np.int8)), "under 'data' bytes of shape"),
        ("data_batch_2", pickled(data=np.zeros(3072, np.uint8)), "under 'data' bytes of shape"),
        ("data_batch_2", pickled(labels=[0, 1]), "3 labels, as many as pictures, but it has 2"),
        ("data_batch_2", pickled(labels=[0, 1, 10]), "labels from 0 to 9, but that of sample 2 is 10"),
        ("data_batch_2", pickled(labels=[0, -1, 2]), "that of sample 1 is -1"),
        ("data_batch_2", pickled(labels=[0, True, 2]), "under 'labels' a list of whole numbers"),
        ("data_batch_2", pickled(labels=None), "under 'labels' a list of whole numbers"),
        ("data_batch_2", pickle.dumps([1]), "a pickled dict, but it contains a list"),
        ("data_batch_2", b"cos\nsystem\n(S'true'\ntR.", "the name 'os system'"),
        ("batches.meta", pickle.dumps({"label_names": [1] * 10}), "under 'label_names' a list of names"),
        ("batches.meta", pickle.dumps({}), "under 'label_names' a list of names"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    write_ten(tmp_path, "binary" if name.endswith((".bin", ".txt")) else "pickled")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        find_cifar10(tmp_path).read(silent)
    assert f"{tmp_path / name} is not accepted: expected " in str(caught.value)
    assert said in str(caught.value)


def test_coarse_labels_are_looked_at_too(tmp_path: Path) -> None:
    write_hundred(tmp_path, "binary")
    (tmp_path / "train.bin").write_bytes(b"\x14\x00" + bytes(3072))
    with pytest.raises(InputError, match="coarse_labels from 0 to 19, but that of sample 0 is 20"):
        find_cifar100(tmp_path).read(silent)


def test_a_file_of_terabytes_is_refused_unread(tmp_path: Path) -> None:
    write_ten(tmp_path, "binary")
    with (tmp_path / "data_batch_1.bin").open("wb") as file:
        file.truncate(3073 * 10**9)  # takes no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"data_batch_1\.bin is not accepted: .*but it has 3,073,000,000,000"):
            find_cifar10(tmp_path).read(silent)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[Path], DataFiles], Path]]:
    """Small data sets, and of each a file to damage."""
    root = tmp_path_factory.mktemp("cifar")
    write_ten(root / "ten", "binary", samples=1)
    write_hundred(root / "hundred", "pickled", sizes=(1, 1))
    return {
        "binary": (root / "ten", find_cifar10, root / "ten" / "data_batch_5.bin"),
        "names": (root / "ten", find_cifar10, root / "ten" / "batches.meta.txt"),
        "pickled": (root / "hundred", find_cifar100, root / "hundred" / "test"),
        "pickled names": (root / "hundred", find_cifar100, root / "hundred" / "meta"),
    }


@settings(max_examples=60)
@given(data=st.data())
def test_no_damage_is_a_crash(
    both: dict[str, tuple[Path, Callable[[Path], DataFiles], Path]], data: st.DataObject
) -> None:
    folder, find, path = both[data.draw(st.sampled_from(sorted(both)))]
    whole = path.read_bytes()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)) if damaged else []:
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    found: Decoded | str
    try:
        found = find(folder).read(silent)
    except InputError as error:
        found = str(error)
    path.write_bytes(whole)
    assert str(path) in found if isinstance(found, str) else found.test.inputs.shape == (1, 32, 32, 3)
