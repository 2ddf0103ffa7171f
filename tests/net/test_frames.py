"""Messages as bytes: what is sent arrives, to the bit and the stride; anything else is refused in a sentence."""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import tracemalloc
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from smofi.engine.cohort.wire import COMPRESSIONS, Compression
from smofi.net.frames import BadFrame, Frame, Parsed, encode, parts_of, read
from smofi.net.transport.envelope import joined

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3), (1, 3, 1, 2), (2, 1, 4, 3), (2, 3, 1, 4, 2)]


def drawn(dtype: torch.dtype, shape: tuple[int, ...] = (2, 3, 4, 5)) -> Tensor:
    """Values of all sizes, the lowest and the highest of the type among them."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 10
    return made > 0 if dtype is torch.bool else made.abs().to(dtype) if dtype is torch.uint8 else made.to(dtype)


def raw(tensor: Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def arrived(tensor: Tensor, packing: Compression | None = None) -> Tensor:
    return read(encode(Frame("test", {}, {"x": tensor}), {"x": packing})).take("x")


def check_same(got: Tensor, expected: Tensor, strides: tuple[int, ...]) -> None:
    assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, strides)
    assert raw(got) == raw(expected)
    assert got.data_ptr() % 64 == 0


def message(header: Any, body: bytes = b"", version: int = 1) -> bytes:
    """A message by hand, its tensors in one piece after the header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = struct.pack("<4sII", b"SMOF", version, len(text)) + text
    return start + bytes(-len(start) % 64) + body if body else start


def listing(*tensors: Any, kind: Any = "test", fields: Any = None) -> dict[str, Any]:
    return {"kind": kind, "fields": {} if fields is None else fields, "tensors": list(tensors)}


# ------------------------------------------------------------------------------------------------------------ arriving


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_of_any_type_shape_and_order_arrives(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        for order in itertools.permutations(range(len(shape))):
            sent = drawn(dtype, shape).permute(order)
            check_same(arrived(sent), sent, sent.stride())


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_packed_tensor_arrives_as_in_the_simulation(name: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        for order in itertools.permutations(range(len(shape))):
            sent = drawn(dtype, shape).permute(order)
            check_same(arrived(sent, COMPRESSIONS[name]), COMPRESSIONS[name](sent, "up", 0), sent.stride())


@pytest.mark.parametrize(
    "sent",
    [
        torch.arange(12)[::2],
        torch.ones(3, 1).expand(3, 4),
        torch.arange(24.0).view(4, 6)[:, 1:3],
    ],
    ids=["gaps", "shown twice", "columns"],
)
def test_a_tensor_with_gaps_arrives_without_them(sent: Tensor) -> None:
    check_same(arrived(sent), sent, sent.contiguous().stride())


def test_values_that_are_not_finite_arrive_to_the_bit() -> None:
    bits = torch.tensor([0x7F800001, -0x400000, 0x7F800000, -0x800000, -0x80000000, 1], dtype=torch.int32)
    assert torch.equal(arrived(bits.view(torch.float32)).view(torch.int32), bits)


def test_a_message_has_many_tensors_in_order_each_aligned() -> None:
    tensors = {
        f"block.{i}-x": drawn(dtype, shape) for i, (dtype, shape) in enumerate(itertools.product(DTYPES, SHAPES))
    }
    payload = encode(Frame("weights", {"round": 7}, tensors), {"block.3-x": COMPRESSIONS["int8"]})
    got = read(payload)
    assert list(got.tensors) == list(tensors)
    assert all(torch.equal(got.take(name), tensor) for name, tensor in tensors.items() if name != "block.3-x")
    assert payload.index(raw(tensors["block.5-x"])) % 64 == 0


def test_what_is_taken_is_nobody_elses() -> None:
    payload = bytearray(encode(Frame("test", {}, {"x": torch.ones(100)})))
    parsed = read(payload)
    one, other = parsed.take("x"), parsed.take("x")
    payload[-400:] = bytes(400)
    one.zero_()
    assert torch.equal(other, torch.ones(100))


def test_memory_that_is_shared_is_not_copied() -> None:
    parts = parts_of(Frame("test", {}, {"x": torch.arange(100.0), "y": drawn(torch.float32, (2, 3))}))
    payload = joined(parts)
    parsed = read(payload, shared=True)
    one, other = parsed.take("x"), parsed.take("x")
    check_same(one, torch.arange(100.0), (1,))
    assert one.data_ptr() == other.data_ptr()
    one.zero_()
    assert torch.equal(parsed.take("y"), drawn(torch.float32, (2, 3)))
    copied = read(bytes(payload), shared=True)  # memory that nobody may write to
    assert copied.take("x").data_ptr() != copied.take("x").data_ptr()
    elsewhere = memoryview(bytearray(len(payload) + 64))[4 : 4 + len(payload)]  # memory that begins elsewhere
    elsewhere[:] = payload
    check_same(read(elsewhere, shared=True).take("y"), drawn(torch.float32, (2, 3)), (3, 1))


small = some.none() | some.booleans() | some.integers(-(2**63) + 1, 2**63 - 1)
small |= some.floats(allow_nan=False, allow_infinity=False) | some.text('aä\u2028\U0001f600\0"\\[', max_size=9)


@given(
    some.dictionaries(
        some.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True), small | some.lists(small, max_size=5), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_fields_arrive_with_type_and_bits(fields: dict[str, Any]) -> None:
    assert repr(read(encode(Frame("test", fields))).fields) == repr(fields)


# ------------------------------------------------------------------------------------------------------------- refused

REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "length is 0: expected at least 12 bytes"),
    "another program": (b"GET / HTTP/1.1\r\n", "magic is b'GET ': expected b'SMOF'"),
    "another version": (message(listing(), version=2), "version is 2: expected 1"),
    "a long header": (message(b" " * 65537), "header length is 65537: expected at most 65536"),
    "a cut header": (message(listing())[:-1], "header length is 45: expected at most 44 bytes"),
    "no JSON": (message(b"{"), "header is not JSON"),
    "no UTF-8": (message(b'"\xff"'), "header is not JSON"),
    "deep": (message(b"[" * 60_000), "header is not JSON"),
    "a long fraction": (
        message(b'{"kind":"a","fields":{"x":0.' + b"3" * 60_000 + b'},"tensors":[]}'),
        "has the number 0.3",
    ),
    "no object": (message([]), "header is not a message"),
    "one name more": (message(listing() | {"more": 1}), "header is not a message"),
    "one name fewer": (message({"kind": "test", "fields": {}}), "header is not a message"),
    "a name twice": (message(b'{"kind":"a","kind":"b","fields":{},"tensors":[]}'), "header has a name twice"),
    "NaN": (message(listing(fields={"loss": math.nan})), "header has the number NaN: expected finite numbers"),
    "infinity": (message(listing(fields={"loss": -math.inf})), "header has the number -Infinity"),
    "a float too large": (message(b'{"kind":"a","fields":{"x":1e999},"tensors":[]}'), "header has the number 1e999"),
    "a long number": (message(b'{"kind":"a","fields":{"x":' + b"9" * 5000 + b'},"tensors":[]}'), "of 5000 digits"),
    "a large number": (message(listing(fields={"x": 2**63})), "header has a whole number of 19 digits"),
    "a kind in capitals": (message(listing(kind="Test")), "kind is 'Test': expected a word"),
    "a kind with a line": (message(listing(kind="test\n")), "kind is 'test"),
    "a kind as a number": (message(listing(kind=3)), "kind is 3"),
    "fields in a list": (message(listing(fields=[])), r"fields is \[\]"),
    "a field's name": (message(listing(fields={"../x": 1})), "fields is '../x'"),
    "many fields": (message(listing(fields={f"x{i}": 1 for i in range(257)})), "expected an object with at most 256"),
    "a field in a field": (message(listing(fields={"x": {"y": 1}})), "fields.x is {'y': 1}"),
    "lists in lists": (message(listing(fields={"x": [[[[[1]]]]]})), "fields.x has lists in lists: expected at most 4"),
    "many values": (message(listing(fields={"x": [0] * 16_384})), "fields.x has too many values"),
    "a lone surrogate": (message(listing(fields={"x": "\ud800"})), "fields.x has a lone surrogate"),
    "tensors by name": (message(listing() | {"tensors": {}}), "tensors is {}"),
    "many tensors": (message(listing(*[[]] * 1025)), "expected a list of at most 1024"),
    "four values": (message(listing(["x", "int8", [1], None])), "expected lists of name"),
    "a tensor's name": (message(listing(["../x", "int8", [0], None, None])), "tensors is '../x'"),
    "a tensor twice": (message(listing(*[["x", "int8", [0], None, None]] * 2)), "tensors has a name twice"),
    "an unknown type": (message(listing(["x", "complex64", [0], None, None])), "tensors.x.dtype is 'complex64'"),
    "a type in a list": (message(listing(["x", ["int8"], [0], None, None])), r"tensors.x.dtype is \['int8'\]"),
    "a negative size": (message(listing(["x", "int8", [-1, -1], None, None]), b"1"), "tensors.x.shape is"),
    "a size as true": (message(listing(["x", "int8", [True], None, None]), b"1"), "tensors.x.shape is"),
    "a size as 1.0": (message(listing(["x", "int8", [1.0], None, None]), b"1"), "tensors.x.shape is"),
    "nine dimensions": (message(listing(["x", "int8", [1] * 9, None, None]), b"1"), "tensors.x.shape is"),
    "sizes that overflow": (message(listing(["x", "int8", [2**32, 2**32], None, None]), b"1"), "tensors.x.shape is"),
    "large but empty": (message(listing(["x", "int8", [2**32, 2**32, 0], None, None])), "tensors.x.shape is"),
    "a size for bytes": (
        message(listing(["x", "int64", [2**40], None, None]), b"1" * 8),
        "x needs 8796093022208 bytes from byte 128 on",
    ),
    "one byte too few": (
        message(listing(["x", "int8", [9], None, None]), b"1" * 8),
        "x needs 9 bytes from byte 128 on: the message has 136 in all",
    ),
    "one byte too many": (message(listing(["x", "int8", [7], None, None]), b"1" * 8), "length is 136: expected 135"),
    "bytes after nothing": (message(listing()) + b"1", "length is 58: expected 57 bytes"),
    "an order of others": (message(listing(["x", "int8", [1, 1], [0, 2], None]), b"1"), "tensors.x.order is"),
    "an order twice": (message(listing(["x", "int8", [1, 1], [1, 1], None]), b"1"), "tensors.x.order is"),
    "an order of bools": (message(listing(["x", "int8", [1, 1], [False, True], None]), b"1"), "tensors.x.order is"),
    "a short order": (message(listing(["x", "int8", [1, 1], [0], None]), b"1"), "tensors.x.order is"),
    "an order of words": (message(listing(["x", "int8", [1, 1], [0, "a"], None]), b"1"), "tensors.x.order is"),
    "an unknown packing": (message(listing(["x", "float32", [1], None, "zip"]), b"1"), "tensors.x.packing is 'zip'"),
    "packed integers": (message(listing(["x", "int64", [1], None, "int8"]), b"1"), "tensors.x.packing is 'int8'"),
    "packed without steps": (
        message(listing(["x", "float32", [9], None, "int8"]), b"1" * 9),
        "x needs 36 bytes from byte 192 on: the message has 137",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_lies_are_refused_in_a_sentence(case: str) -> None:
    payload, sentence = REFUSED[case]
    with pytest.raises(BadFrame, match=sentence) as refusal:
        read(payload)
    assert str(refusal.value).startswith(refusal.value.field)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("depth", [7, 400, 980, 10_000])
@pytest.mark.parametrize(
    "header",
    [
        b'{"kind":DEEP,"fields":{},"tensors":[]}',
        b'{"kind":"a","fields":{"x":DEEP},"tensors":[]}',
        b'{"kind":"a","fields":{},"tensors":[["x","int8",DEEP,null,null]]}',
    ],
    ids=["kind", "field", "shape"],
)
def test_lists_in_lists_without_end_are_refused(header: bytes, depth: int) -> None:
    """Where Python would not go so deep, too."""
    for opening, closing in ((b"[", b"]"), (b'{"x":', b"}")):
        with pytest.raises(BadFrame, match=r"^header (has lists in lists|is not JSON)"):
            read(message(header.replace(b"DEEP", opening * depth + b"0" + closing * depth)))


def test_a_bool_is_zero_or_one() -> None:
    parsed = read(message(listing(["x", "bool", [2], None, None]), b"\1\2"))
    with pytest.raises(BadFrame, match=r"^tensors.x has other bytes than 0 and 1"):
        parsed.take("x")


def test_bytes_between_tensors_are_zero() -> None:
    payload = bytearray(message(listing(["x", "int8", [1], None, None]), b"1"))
    payload[-2] = 1
    with pytest.raises(BadFrame, match=r"^tensors.x has other bytes than zeros before it"):
        read(payload)


def test_a_tensor_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadFrame, match=r"^tensors.y is missing$"):
        read(encode(Frame("test"))).take("y")


def test_a_lie_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terabytes are announced, and a header is as full of objects as can be: torch is asked for no tensor, and Python
    takes little."""
    monkeypatch.setattr(torch, "empty", lambda *given, **more: pytest.fail("memory is taken for a tensor"))
    lies = [*(payload for payload, _ in REFUSED.values()), message(b"[" + b"[]," * 21_000 + b"[]]")]
    for lie in lies:
        tracemalloc.start()
        with pytest.raises(BadFrame):
            read(lie)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 8 * 2**20


# ---------------------------------------------------------------------------------------------------------------- fuzz


def survives(payload: bytes) -> Parsed | None:
    """Nothing but a refusal, or a message whose tensors are what its header says."""
    try:
        parsed = read(payload)
        for name, header in parsed.tensors.items():
            tensor = parsed.take(name)
            assert (tensor.dtype, tuple(tensor.shape)) == (header.dtype, header.shape)
    except BadFrame:
        return None
    return parsed


def samples() -> list[bytes]:
    """Messages as they are sent, of all kinds."""
    x, y = drawn(torch.float32, (2, 3, 2, 2)).to(memory_format=torch.channels_last), torch.tensor([1, 3])
    fields: dict[str, Any] = {
        "step": 12,
        "loss": 0.125,
        "name": "hospital-a",
        "sizes": [3, 4],
        "last": False,
        "why": None,
    }
    frames = [
        encode(Frame("ready")),
        encode(Frame("status", fields)),
        *(encode(Frame("activation", fields, {"x": x, "y": y}), {"x": one}) for one in (None, *COMPRESSIONS.values())),
        encode(
            Frame("masks", {}, {"mask": torch.tensor([True, False]), "none": torch.ones(0, 3), "one": torch.ones(())})
        ),
    ]
    assert all(survives(frame) for frame in frames)
    return frames


def test_truncated_at_every_byte_it_is_refused() -> None:
    for payload in samples():
        for length in range(len(payload)):
            assert survives(payload[:length]) is None
        assert survives(payload + b"\0") is None


def test_with_any_byte_changed_it_is_refused_or_another_message() -> None:
    for payload in samples():
        for place, flip in itertools.product(range(len(payload)), (1, 0x20, 0x80, 0xFF)):
            changed = bytearray(payload)
            changed[place] ^= flip
            survives(changed)


TOKENS = [b"[", b"]", b"{", b"}", b",", b":", b"-", b"0", b"1e999", b"NaN", b"null", b"true", b'"', b"\\ud800", b"\xff"]
TOKENS += [str(number).encode() for number in (-1, 2**31, 2**40, 2**63, 2**64, 10**400, 0.5)] + [
    b'"x"',
    b'"int8"',
    b"[[[[[",
]


def mutated(draw: random.Random, payload: bytes) -> bytes:
    """A message with a few changes; most of them in its header, whose length is mostly told right."""
    start, text, rest = payload[:8], *split(payload)
    text = bytearray(text)
    for _ in range(draw.choice((1, 1, 2, 4))):
        place, token = draw.randrange(len(text) + 1), draw.choice(TOKENS)
        text[place : place + draw.choice((0, 0, 1, len(token), 9))] = draw.choice((token, b"", draw.randbytes(2)))
    length = len(text) if draw.random() < 0.9 else draw.getrandbits(32)
    if draw.random() < 0.3:
        rest = rest[: draw.randrange(len(rest) + 1)] + draw.randbytes(draw.randrange(80))
    gap = bytes(-(12 + len(text)) % 64) if rest else b""
    return start + struct.pack("<I", length) + bytes(text) + gap + rest


def split(payload: bytes) -> tuple[bytes, bytes]:
    """The header, and the tensors without the zeros before the first."""
    (length,) = struct.unpack_from("<I", payload, 8)
    end = 12 + length
    return payload[12:end], payload[end + -end % 64 :]


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 20_000), *(pytest.param(seed, 100_000, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_mutations_are_refused_or_other_messages(seed: int, count: int) -> None:
    draw, frames = random.Random(seed), samples()
    accepted = sum(survives(mutated(draw, draw.choice(frames))) is not None for _ in range(count))
    assert count / 200 < accepted < count / 2


@given(some.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_refused(noise: bytes) -> None:
    assert survives(noise) is None
    assert survives(message(noise)) is None


anything = some.recursive(
    small | some.floats(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(
    anything, anything, some.lists(some.lists(anything, min_size=5, max_size=5), max_size=3), some.binary(max_size=100)
)
@settings(max_examples=50, deadline=None)
def test_any_json_is_refused_or_a_message(kind: Any, fields: Any, tensors: Any, body: bytes) -> None:
    survives(message({"kind": kind, "fields": fields, "tensors": tensors}, body))
    survives(message({"kind": "test", "fields": fields, "tensors": tensors}, body))
    survives(message({"kind": "test", "fields": {}, "tensors": tensors}, body))
