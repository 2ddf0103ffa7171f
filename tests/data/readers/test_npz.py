from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smofi.data.decoded import silent
from smofi.data.formats.arrays import from_arrays
from smofi.data.readers.npz import find_npz
from smofi.errors import InputError
from support.real_data import shared

X = np.random.default_rng(0).integers(256, size=(30, 4, 4), dtype=np.uint8)
Y = np.arange(30) % 3
FEW_MEGABYTES = 4 << 20


def npy(array: Any = X, **header: Any) -> bytes:
    """An array as numpy saves it, or with a header that says something else."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    if not header:
        return file.getvalue()
    file.seek(10 + struct.unpack("<H", file.getvalue()[8:10])[0])
    said = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    text = (repr(said) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + file.read()


def packed(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    np.savez_compressed(tmp_path / "whole.npz", x=X, y=Y, client=Y + 4, quant=np.ones(3))
    return (tmp_path / "whole.npz").read_bytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_it_is_read_as_numpy_reads_it(save: Any, tmp_path: Path) -> None:
    words = np.array(["å", "b", "ccc"])
    arrays = {"x": np.asfortranarray(X.astype(">f4")), "y": words[Y], "x_test": X[:6].astype(np.float64),
              "y_test": words[Y[:6]], "site": Y + 4, "fold": np.arange(3)}  # fmt: skip
    save(tmp_path / "mine.npz", **arrays)
    told: list[tuple[int, int]] = []
    found = find_npz(tmp_path / "mine.npz").read(lambda done, total: told.append((done, total)))
    with np.load(tmp_path / "mine.npz") as loaded:
        expected = from_arrays(loaded, "mine")
    for part, other in ((found.train, expected.train), (found.test, expected.test)):
        assert (part.inputs == other.inputs).all()
        assert (part.targets == other.targets).all()
    assert (found.train.owner == expected.train.owner).all()
    assert (found.classes, found.owners, found.about) == (expected.classes, expected.owners, expected.about)
    assert found.about == {"test": "x_test and y_test", "left_out": "keys that are not used: fold"}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    sizes = {info.filename: info.file_size for info in zipfile.ZipFile(tmp_path / "mine.npz").infolist()}
    assert told[-1][0] == told[-1][1] == sum(sizes.values()) - sizes["fold.npy"]


def test_progress_comes_about_every_hundredth(tmp_path: Path) -> None:
    np.savez(tmp_path / "large.npz", x=np.zeros((500, 90, 90, 3), np.uint8), y=np.arange(500) % 2)
    told: list[int] = []
    find_npz(tmp_path / "large.npz").read(lambda done, total: told.append(done))
    assert 10 < len(told) <= 205


def test_speech_commands_by_speaker() -> None:
    path = shared("speech_commands_logmel.npz")
    decoded = find_npz(path).read(silent)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (11_918, 2_980)
    assert decoded.train.inputs.shape[1:] == (49, 40, 1)
    assert (len(decoded.classes), len(decoded.owners)) == (36, 1839)
    with np.load(path) as loaded:
        assert (
            np.bincount(loaded["y"]).tolist()
            == (np.bincount(decoded.train.targets) + np.bincount(decoded.test.targets)).tolist()
        )
        for part in (decoded.train, decoded.test):
            assert part.owner is not None
            rows = {row.tobytes(): index for index, row in enumerate(loaded["x"])}
            some = [rows[image.tobytes()] for image in part.inputs[:50]]
            assert loaded["y"][some].tolist() == part.targets[:50].tolist()
            assert [str(speaker) for speaker in loaded["speaker"][some]] == [decoded.owners[k] for k in part.owner[:50]]


def test_what_is_not_needed_is_not_unpacked(tmp_path: Path) -> None:
    members = {"x.npy": npy(), "y.npy": npy(Y), "big.npy": npy(np.zeros(30_000_000, np.uint8)),
               "objects.npy": npy(np.array([{}, []], dtype=object))}  # fmt: skip
    path = packed(tmp_path / "mine.npz", members)
    tracemalloc.start()
    decoded = find_npz(path).read(silent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded.about["left_out"] == "keys that are not used: big, objects"
    assert peak < FEW_MEGABYTES


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"x.npy": npy(), "labels.npy": npy(Y)}, "x and y, but there is no y, only labels, x"),
        ({"x.npy": npy(), "y.npy": npy(Y), "readme.txt": b"hello"}, r"\(.npy\) only, but there is 'readme.txt'"),
        ({"x.npy": npy(), "y.npy": npy(Y), "../z": b"hello"}, r"arrays \(.npy\) only, but there is '../z'"),
        ({"x.npy": npy(X.astype(object)), "y.npy": npy(Y)}, r"numbers or words in 'x.npy', but its type is '\|O'"),
        ({"x.npy": npy(np.zeros(3, "i4,f4"))}, r"numbers or words in 'x.npy'.*\[\('f0', '<i4'\)"),
        ({"x.npy": b"\x93NUMPX\x01\x00" + npy()[8:], "y.npy": npy(Y)}, "a numpy array, but it begins"),
        ({"x.npy": b"\x93NUMPY\x09\x00" + npy()[8:], "y.npy": npy(Y)}, "a numpy array, but it begins"),
        ({"x.npy": b"", "y.npy": npy(Y)}, "a numpy array, but it begins with b''"),
        ({"x.npy": npy()[:60]}, "a header of 118 bytes, but it ends after 50"),
        ({"x.npy": npy()[:-1], "y.npy": npy(Y)}, "608 bytes in 'x.npy', as it claims .*, but it has 607"),
        ({"x.npy": npy() + b"1", "y.npy": npy(Y)}, "608 bytes in 'x.npy', as it claims .*, but it has 609"),
        ({"x.npy": npy(shape=(2**31, 2**31))}, r"bytes in 'x.npy', as it claims shape \[2147483648, 2147483648\]"),
        ({"x.npy": npy(shape=(2**62,) * 32)}, "bytes in 'x.npy', as it claims shape"),
        ({"x.npy": npy(shape=(10**30,))}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(shape=(-30, 16))}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(shape=[30, 16])}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(shape=(1,) * 33)}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(shape=(True, 480))}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(fortran_order=0)}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(more=1)}, "a header with descr, shape and fortran_order"),
        ({"x.npy": npy(X[:0], descr="<U0", shape=(2**31,))}, "numbers or words in 'x.npy', but its type is '<U0'"),
        ({"x.npy": npy(descr="<U999999999")}, "'x.npy'"),
        ({"x.npy": npy(descr="V8")}, "bytes in 'x.npy', as it claims"),
        ({"x.npy": npy(descr="datetime64[s]")}, "numbers or words in 'x.npy', but its type is 'datetime64"),
        ({"x.npy": npy(X[:0], shape=(0, 2**62, 2**62))}, r"at least one sample in 'x.npy', but its shape is \[0, 46"),
        ({"x.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 500}, "at most 10,000 bytes"),
        ({"x.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000}, "a header with descr, shape and"),
    ],
)  # fmt: skip
def test_what_is_wrong_inside_is_refused_before_memory_is_taken(
    members: dict[str, bytes], said: str, tmp_path: Path
) -> None:
    members = {"y.npy": npy(Y), **members} if "but there is no y" not in said else members
    path = packed(tmp_path / "mine.npz", members)
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"(?s)mine\.npz is not accepted: expected .*{said}"):
        find_npz(path).read(silent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < FEW_MEGABYTES


def directory(content: bytes) -> int:
    """Where the directory of a zip file begins."""
    return int(struct.unpack("<I", content[-6:-2])[0])


def changed(content: bytes, place: int, form: str, value: int) -> bytes:
    return content[:place] + struct.pack(form, value) + content[place + struct.calcsize(form) :]


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(InputError, match="is not accepted") as error:
        find_npz(path).read(silent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < FEW_MEGABYTES
    return str(error.value)


@pytest.mark.parametrize(
    ("place", "form", "value", "said"),
    [
        (8, "<H", 1, "not encrypted, but 'x.npy' is"),
        (10, "<H", 14, "stored or deflated, but 'x.npy' is packed in another way"),
        (24, "<I", 2**31, "possible sizes, but 'x.npy' claims 2,147,483,648 bytes out of"),
        (20, "<I", 2**30, "arrays that do not overlap, but"),
        (42, "<I", 2**30, "together, but they claim"),
        (16, "<I", 7, "Bad CRC-32"),
    ],
)
def test_a_directory_that_lies_is_refused(
    whole: bytes, tmp_path: Path, place: int, form: str, value: int, said: str
) -> None:
    assert said in refused(tmp_path / "mine.npz", changed(whole, directory(whole) + place, form, value))


def test_members_twice_or_within_another_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("x.npy", npy())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", npy())
    assert "'x.npy' occurs twice" in refused(tmp_path / "mine.npz", (tmp_path / "twice.npz").read_bytes())
    content = packed(tmp_path / "mine.npz", {"x.npy": npy(), "y.npy": npy(Y)}, zipfile.ZIP_STORED).read_bytes()
    second = content.index(b"PK\x01\x02", directory(content) + 1)
    assert "'y.npy' overlaps" in refused(tmp_path / "mine.npz", changed(content, second + 42, "<I", 20))


def test_a_directory_of_any_length_is_not_taken_into_memory(tmp_path: Path) -> None:
    path = packed(tmp_path / "many.npz", {f"{number:0200}.npy": b"" for number in range(5000)})
    assert "longer than 1,048,576 bytes" in refused(path, path.read_bytes())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    refused(tmp_path / "cut.npz", whole[: data.draw(st.integers(0, len(whole) - 1))])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_that_are_changed_are_refused_or_without_effect(
    whole: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "flipped.npz").write_bytes(broken)
    try:
        decoded = find_npz(tmp_path / "flipped.npz").read(silent)
    except InputError as error:
        assert "flipped.npz" in str(error)  # noqa: PT017
    else:
        # the checksums saw no change in what was read
        assert {image.tobytes() for image in decoded.train.inputs} <= {image.tobytes() for image in X}


def header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_headers_that_are_changed_are_refused_or_fit(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(b"{'descr': '|u1', 'fortran_order': False, 'shape': (30, 4, 4), }")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"9", b"-", b"(", b"'", b"\xff", b"<f8", b"*", b"\\"])
        )
    path = packed(tmp_path / "changed.npz", {"x.npy": header(bytes(text)) + X.tobytes(), "y.npy": npy(Y)})
    try:
        assert find_npz(path).read(silent).train.inputs.size == 24 * 16
    except InputError as error:
        assert "changed.npz" in str(error)  # noqa: PT017


def test_no_warning_comes_out_of_a_header(tmp_path: Path) -> None:
    path = packed(tmp_path / "mine.npz", {"x.npy": header(b"{'descr': '\\d', 'shape': 1if 1else 2}")})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match="a header with descr"):
            find_npz(path).read(silent)
    assert not said


def test_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.npz"):
        with pytest.raises(InputError, match=r"expected an \.npz file"):
            find_npz(path)
    assert "undamaged .npz file" in refused(tmp_path / "text.npz", b"hello")
