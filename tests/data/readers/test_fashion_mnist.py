from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data.decoded import Decoded, silent
from smofi.data.readers.idx_files import CLASSES, find_fashion_mnist
from smofi.errors import InputError

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(*shape: int, content: bytes | None = None) -> bytes:
    size = int(np.prod(shape))
    header = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    return header + (bytes(k % 10 for k in range(size)) if content is None else content)


def write(folder: Path, *, packed: bool = False, dot: bool = False) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, shape in zip(NAMES, ((4, 5, 3), (4,), (2, 5, 3), (2,)), strict=True):
        path = folder / (name.replace("-idx", ".idx" if dot else "-idx") + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(idx(*shape), mtime=0) if packed else idx(*shape))
        paths.append(path)
    return paths


@pytest.mark.parametrize("place", ["", "fashion-mnist", "FashionMNIST/raw"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dot", [False, True])
def test_four_files(tmp_path: Path, place: str, packed: bool, dot: bool) -> None:
    paths = write(tmp_path / place, packed=packed, dot=dot)
    assert find_fashion_mnist(tmp_path).paths == paths
    told: list[tuple[int, int]] = []
    found = find_fashion_mnist(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, len(found.classes)) == ("image", CLASSES, 10)
    assert (found.train.inputs.shape, found.test.inputs.shape) == ((4, 5, 3, 1), (2, 5, 3, 1))
    # Pixel (sample, row, column) is byte 15 sample + 3 row + column, and byte k holds k modulo 10.
    assert found.train.inputs[2, 4, 1, 0] == (15 * 2 + 3 * 4 + 1) % 10
    assert found.test.inputs.reshape(-1).tolist() == [k % 10 for k in range(30)]
    assert (found.train.targets.tolist(), found.test.targets.tolist()) == ([0, 1, 2, 3], [0, 1])
    assert (found.train.inputs.dtype, found.train.targets.dtype) == (np.uint8, np.int64)
    assert all(array.flags.writeable for array in (found.train.inputs, found.train.targets, found.test.inputs))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte, .*\(or these in fashion-mnist\)"):
        find_fashion_mnist(tmp_path)
    for path in write(tmp_path)[2:]:
        path.unlink()
    with pytest.raises(InputError, match="expected t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte as well"):
        find_fashion_mnist(tmp_path)


@pytest.mark.parametrize(
    ("number", "content", "said"),
    [
        (0, b"", "begins with 00 00 08 03, but it begins with nothing"),
        (0, idx(60), "begins with 00 00 08 03, but it begins with 00 00 08 01"),
        (1, b"\x00\x00\x09" + idx(4)[3:], "begins with 00 00 08 01, but it begins with 00 00 09 01"),
        (0, idx(4, 5, 3)[:15], "begins with 00 00 08 03"),
        (0, idx(4, 5, 3)[:-1], "76 bytes for the 4 x 5 x 3 it announces, but it has 75"),
        (0, idx(4, 5, 3) + b"\x00", "76 bytes for the 4 x 5 x 3 it announces, but it has 77"),
        (0, idx(0, 5, 3), "but it announces 0 x 5 x 3"),
        (1, idx(3), "4 labels, as many as train-images-idx3-ubyte has pictures, but it has 3"),
        (1, idx(4, content=b"\x00\x01\x02\x0a"), "labels from 0 to 9, but one is 10"),
        (2, idx(2, 3, 5), "pictures of 5x3 as in train-images-idx3-ubyte, but they are 3x5"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_files_are_named(tmp_path: Path, number: int, content: bytes, said: str, packed: bool) -> None:
    path = write(tmp_path, packed=packed)[number]
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InputError) as caught:
        find_fashion_mnist(tmp_path).read(silent)
    assert f"{path} is not accepted: expected " in str(caught.value)
    if not (packed and content == idx(4, 5, 3) + b"\x00"):  # then it says that it unpacks to more
        assert said in str(caught.value).replace(".gz", "")


@pytest.mark.parametrize("shape", [(2**31, 28, 28), (2**32 - 1,) * 3, (60_000, 28, 28), (2**31 - 17, 1, 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_header_takes_no_memory(tmp_path: Path, shape: tuple[int, ...], packed: bool) -> None:
    path = write(tmp_path, packed=packed)[0]
    content = bytes((0, 0, 8, 3)) + struct.pack(">3I", *shape) + bytes(100)
    path.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"announces.*{shape[0]:,}|{shape[0]:,}.*announces"):
            find_fashion_mnist(tmp_path).read(silent)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_packed_file_is_unpacked_no_further_than_announced(tmp_path: Path) -> None:
    path = write(tmp_path, packed=True)[0]
    path.write_bytes(gzip.compress(idx(4, 5, 3) + bytes(50_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="76 bytes for the 4 x 5 x 3 it announces, but it has more"):
            find_fashion_mnist(tmp_path).read(silent)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


@settings(max_examples=100)
@given(data=st.data())
def test_no_damage_is_a_crash(folder: Path, data: st.DataObject) -> None:
    for old in folder.iterdir():
        old.unlink()
    path = data.draw(st.sampled_from(write(folder, packed=data.draw(st.booleans()))))
    whole = path.read_bytes()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)) if damaged else []:
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    found: Decoded | str
    try:
        found = find_fashion_mnist(folder).read(silent)
    except InputError as error:
        found = str(error)
    assert path.name in found if isinstance(found, str) else len(found.train.targets) + len(found.test.targets) == 6


def test_the_real_fashion_mnist() -> None:
    if not DEBIAN.is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed")
    found = find_fashion_mnist(DEBIAN).read(silent)
    assert (found.train.inputs.shape, found.test.inputs.shape) == ((60_000, 28, 28, 1), (10_000, 28, 28, 1))
    assert np.bincount(found.train.targets).tolist() == [6000] * 10
    # Mean and deviation as they are published for this data set.
    shares = np.bincount(found.train.inputs.reshape(-1), minlength=256) / found.train.inputs.size
    mean = shares @ np.arange(256) / 255
    assert mean == pytest.approx(0.2860, abs=5e-5)
    assert np.sqrt(shares @ (np.arange(256) / 255 - mean) ** 2) == pytest.approx(0.3530, abs=5e-5)
