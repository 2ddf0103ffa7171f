from __future__ import annotations

import os
import pickle
import pickletools
import struct
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data.readers import cifar as plain_pickle
from smofi.data.readers.cifar import read_plain_pickle
from smofi.errors import InputError

PATH = Path("some.pkl")
DATA = np.arange(24, dtype=np.uint8).reshape(2, 12)


def example() -> dict[str, Any]:
    return {
        "data": DATA,
        "labels": [3, 1, 255, 256, 70_000, -1, 2**40, -(2**63)],
        "wide": np.arange(4, dtype=np.int64),
        "reversed": np.arange(6, dtype=">i4").reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.uint16).reshape(2, 3)),
        "names": ["cat", "Bär", "ß" * 300, b"raw \xff\x00 bytes"],
        "pair": (1, "two"),
        "nested": {"none": None, "yes": True, "no": False, 7: [[], {}]},
    }


def python2(raw: bytes = bytes(range(24)), shape: tuple[int, int] = (2, 12)) -> bytes:
    """A pickle as Python 2 and numpy 1 wrote it: protocol 2, all strings are byte strings."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNNJ" + b"\xff" * 4
    dtype += b"J" + b"\xff" * 4 + b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01"
    array += struct.pack("<BiBi", ord("J"), shape[0], ord("J"), shape[1]) + b"\x86" + dtype
    array += b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    return b"\x80\x02}q\x01(" + text(b"data") + array + text(b"labels") + b"]q\x06(K\x03K\x01eu."


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    else:
        assert found == expected


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol(protocol: int) -> None:
    assert_same(read_plain_pickle(pickle.dumps(example(), protocol), PATH), example())


def test_old_module_names() -> None:
    new = pickle.dumps(example(), 2)
    old = new.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert (old != new) or b"numpy.core.multiarray" in new
    assert_same(read_plain_pickle(old, PATH), example())


def test_strings_and_arrays_as_python_2_wrote_them() -> None:
    found = read_plain_pickle(python2(), PATH)
    assert_same(found, {"data": DATA, "labels": [3, 1]})


# ------------------------------------------------------------------------------------------------------------ attackers


def attacks(marker: str) -> dict[str, bytes]:
    """Pickles that make a folder when they are loaded."""
    path = marker.encode()
    plain, unicode = b"S'" + path + b"'\n", b"\x8c" + bytes([len(path)]) + path
    return {
        "GLOBAL": b"cos\nmkdir\n(" + plain + b"tR.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93" + unicode + b"\x85R.",
        "INST": b"(" + plain + b"ios\nmkdir\n.",
        "OBJ": b"(cos\nmkdir\n" + plain + b"o.",
        "in a dict": b"}U\x04data" + b"cos\nmkdir\n(" + plain + b"tRs.",
        "eval": b"cbuiltins\neval\n(V__import__('os').mkdir('" + path + b"')\ntR.",
    }


@pytest.mark.parametrize("kind", attacks(""))
def test_nothing_is_ever_called(tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "made"
    attack = attacks(str(marker))[kind]
    pickle.loads(attack)  # noqa: S301  # the attack works where it is let in
    marker.rmdir()
    with pytest.raises(InputError, match=r"some\.pkl is not accepted: expected plain data, but at byte \d+ \(\w+\)"):
        read_plain_pickle(attack, PATH)
    assert not marker.exists()


class Thing:
    pass


class Call:
    """Pickles as a call of something with arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        Thing(),
        Thing,
        {1, 2},
        frozenset([1]),
        1.5,
        1j,
        2**63,
        2**4000,
        os.system,
        np.float32(1),
        np.zeros(3),
        np.zeros(0, np.uint8),
        np.array(3),
        np.array(["text"]),
        np.array([None, {}]),
        np.zeros(2, [("field", "u1")]),
        np.array([True]),
        np.zeros((1, 1, 1, 1, 1), np.uint8),
        np.dtype("u1"),
        np.ndarray,
        {"deep": (1, (2, 3))},
        {(1, 2): 3},
        {None: 3},
        Call(np.dtype, "O", False, True),
        Call(np.dtype, "u1"),
        Call(np.ndarray, (3,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_plain_data_is_refused(value: Any, protocol: int) -> None:
    with pytest.raises(InputError, match="plain data"):
        read_plain_pickle(pickle.dumps({"data": [value]} if type(value) is not dict else value, protocol), PATH)


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"c_codecs\nencode\n(Vabc\nVrot13\ntR.", "'encode' with arguments"),
        (b"c_codecs\nencode\n(Vabc\ntR.", "'encode' with arguments"),
        (b"c_codecs\nencode\n(V\\u0416\nVlatin1\ntR.", "text where bytes should be"),
        (b"c_codecs\ndecode\n.", "the name '_codecs decode'"),
        (b"cnumpy\nload\n.", "the name 'numpy load'"),
        (b"cnumpy\nndarray.tofile\n.", "the name 'numpy ndarray.tofile'"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93.", "the name 'numpy ndarray.dumps'"),
        (b"\x80\x04K\x01K\x02\x93.", "not text"),
        (b"cnumpy\ndtype\n.", "a name where a value should be"),
        (b"cnumpy\ndtype\n}}\x92.", "NEWOBJ_EX"),
        (b"cnumpy\ndtype\n)\x81.", "NEWOBJ"),
        (b"}}b.", "the state of something"),
        (b"cnumpy\ndtype\n}U\x01aK\x01sb.", "the state of something"),
        (ARRAY + b"}U\x01aK\x01sb.", "the state of something"),
        (ARRAY + b".", "an array without content"),
        (b"]" + ARRAY + b"a.", "an array without content"),
        (b"U\x01a)R.", "something to call"),
        (b"Pname\n.", "PERSID"),
        (b"U\x04nameQ.", "BINPERSID"),
        (b"\x82\x01.", "EXT1"),
        (b"\x83\x01\x00.", "EXT2"),
        (b"\x84\x01\x00\x00\x00.", "EXT4"),
        (b"\x97.", "NEXT_BUFFER"),
        (b"U\x01a\x98.", "READONLY_BUFFER"),
        (b"\x8f.", "EMPTY_SET"),
        (b"]2.", "DUP"),
        (b"]q\x00h\x00a.", "a reference to a dict, a list"),
        (b"}q\x00U\x01ah\x00s.", "a reference to a dict, a list"),
        (b"]q\x00h\x00\x85q\x01h\x01a.", "a reference to a dict, a list"),
        (b")\x85q\x00h\x00h\x00\x86q\x01.", "a reference to a dict, a list or a nested tuple"),
        (b"h\x07.", "a reference to nothing"),
        (b"a.", "nothing to take"),
        (b"(.", "nothing to take"),
        (b"e.", "no mark"),
        (b"K\x01K\x02.", "an end before all values"),
        (b"K\x01(K\x02e.", "not a list"),
        (b"](K\x01u.", "not a dict"),
        (b"(" + b"N" * 17 + b"t.", "a tuple of more than 16 items"),
        (b"}(" + b"".join(b"M" + struct.pack("<H", k) + b"N" for k in range(1001)) + b"u.", "of more than 1,000 keys"),
        (b"}X" + struct.pack("<I", 1001) + b"a" * 1001 + b"Ns.", "a key of more than 1,000 letters"),
        (b"Np500001\n.", "a place in the memo"),
        (b"Np-1\n.", "a place in the memo"),
        (b"cnumpy\ndtype\n(U\x04||u1I00\nI01\ntR.", "'dtype' with arguments"),
        (b"}(K\x01u.", "not a dict"),
        (b"K\x01q\x00", "broken"),
        (b"", "broken"),
        (b"\xff", "broken"),
        (b"S'\\d'\n.\n", None),
    ],
)
def test_crafted_pickles(content: bytes, said: str | None) -> None:
    if said is None:
        assert read_plain_pickle(content, PATH) == "\\d"  # and no warning about the escape
        return
    with pytest.raises(InputError, match=r"^some\.pkl is not accepted") as caught:
        read_plain_pickle(content, PATH)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def peak_of_refusing(content: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read_plain_pickle(content, PATH)
        assert len(str(caught.value)) < 400
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_header_takes_no_memory() -> None:
    claims = [
        b"B" + struct.pack("<I", 2**32 - 1) + b"abc.",
        b"\x8e" + struct.pack("<Q", 2**40) + b"abc.",
        b"\x96" + struct.pack("<Q", 2**63 - 1) + b"abc.",
        b"\x8d" + struct.pack("<Q", 2**64 - 1) + b"abc.",
        b"T" + struct.pack("<i", -1) + b"abc.",
        b"\x8b" + struct.pack("<i", 2**31 - 1) + b"abc.",
        python2(shape=(2**31 - 1, 2**31 - 1)),
        python2(shape=(2, 13)),
        python2(shape=(-2, -12)),
        b"r" + struct.pack("<I", 2**32 - 1) + b".",
    ]
    assert max(peak_of_refusing(claim) for claim in claims) < 1_000_000


def test_bombs_are_stopped() -> None:
    # Each list holds the one before ten times; each tuple the one before twice.
    laughs = b"]q\x00" + b"".join(b"](" + bytes([ord("h"), k]) * 10 + b"eq" + bytes([k + 1]) for k in range(40)) + b"."
    doubling = b"(U\x01atq\x00" + b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60)) + b"."
    # A text of 100,000 letters, encoded a thousand times.
    letters = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000
    encoded = b"(c_codecs\nencode\nq\x00" + letters + b"q\x01Vlatin1\nq\x02](" + b"h\x00h\x01h\x02\x86R" * 1000 + b"et."
    assert max(peak_of_refusing(bomb) for bomb in (laughs, doubling, encoded)) < 2_000_000
    assert peak_of_refusing(b"]" * 200_000) < 10_000_000
    assert peak_of_refusing(b"(" * (plain_pickle.MOST_STEPS + 10)) < 20_000_000


def calls_of_reading(content: bytes) -> int:
    """How many functions are called, built-in or not, until a pickle is read or refused."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with suppress(InputError):
            read_plain_pickle(content, PATH)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("size", [16, 17, 1000])
def test_work_grows_with_the_file_and_no_faster(size: int) -> None:
    # a tuple that a list refers to again and again
    short, long = (b"](" + b"N" * size + b"tq\x00a" + b"h\x00a" * times + b"." for times in (1000, 3000))
    assert read_plain_pickle(b"](" + b"N" * 16 + b"tq\x00ah\x00a.", PATH) == [(None,) * 16] * 2
    calls = [calls_of_reading(content) for content in (short, long)]
    # 16 items are looked at when they are referred to, and again when they are put into the list
    assert calls[0] < 40 * len(short)
    assert calls[1] < 40 * len(long)


def assert_plain(value: Any, deepest: int = 30) -> None:
    assert deepest
    assert type(value) in (dict, list, tuple, str, bytes, int, bool, type(None), np.ndarray)
    if isinstance(value, np.ndarray):
        assert value.dtype.kind in "iu"
    elif isinstance(value, (dict, list, tuple)):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            assert_plain(item, deepest - 1)


ORIGINALS = [python2(), *(pickle.dumps(example(), protocol) for protocol in (0, 2, 4, 5))]


@settings(max_examples=200)
@given(data=st.data())
def test_damaged_pickles_are_refused_or_still_plain(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(ORIGINALS)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        codes = st.sampled_from([ord(opcode.code) for opcode in pickletools.opcodes])
        content[place] = data.draw(st.integers(0, 255) | codes)
    try:
        found = read_plain_pickle(bytes(content), PATH)
    except InputError:
        return
    assert_plain(found)


@settings(max_examples=60)
@given(data=st.data())
def test_a_pickle_cut_short_is_refused(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(ORIGINALS))
    with pytest.raises(InputError, match=r"some\.pkl is not accepted"):
        read_plain_pickle(content[: data.draw(st.integers(0, len(content) - 1))], PATH)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([opcode.code.encode("latin-1") for opcode in pickletools.opcodes]) | st.binary(max_size=9))
)
def test_random_opcodes(pieces: list[bytes]) -> None:
    with suppress(InputError):
        assert_plain(read_plain_pickle(b"".join(pieces) + b".", PATH))
