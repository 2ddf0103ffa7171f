"""Messages that no client of ours would send, by kind of attack; each is made anew from a seed.

Three levels: the first message of a stream, the envelope of a session that was let in, and the frame in an envelope.
Then messages of a real session with one thing changed: a field, a type, a shape, an order, a length, a bit. None is a
message that a server may take.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from smofi.net.frames import Frame, encode
from smofi.net.transport.envelope import Kind, Opening, pack, pack_opening
from support.mutations import mutated

Make = Callable[[random.Random], bytes]
NAMES = ["../../etc/passwd", "", "a/b", "a\0b", "é" * 90, "x" * 200, "-rf", "honest-0 ", "\n", "%s%n", "CON", "a" * 101]
KINDS = ["begin", "activation", "output", "returned", "cut_gradient", "finished", "rest", "evaluate", "evaluated"]
ODD_KINDS = ["offer", "over", "accepted", "pickle", "x" * 33, "__class__", "", "Activation", "exec"]


def opening(session: bytes = bytes(16), resumed: bool = False, received: int = 0, name: str = "mallory") -> bytes:
    return pack_opening(Opening(session, resumed, received, name, b"smofi"))


# -------------------------------------------------------------------------------------------- first messages of streams


def noise(draw: random.Random) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 7, 8, 33, 34, 100, 5000)))


def damaged_opening(draw: random.Random) -> bytes:
    return mutated(opening(draw.randbytes(16)), draw)


def other_version(draw: random.Random) -> bytes:
    return b"smofi" + struct.pack("<?H", False, draw.choice((0, 2, 3, 255, 65535))) + draw.randbytes(40)


def cut_opening(draw: random.Random) -> bytes:
    whole = opening(draw.randbytes(16))
    return whole[: draw.randrange(len(whole) - 5)]


def lying_name(draw: random.Random) -> bytes:
    head = struct.pack("<5s?H16sQH", b"smofi", False, 1, draw.randbytes(16), 0, draw.choice((201, 5000, 65535)))
    return head + b"mallory"


def large_hello(draw: random.Random) -> bytes:
    return opening(draw.randbytes(16)) + bytes(draw.choice((65_537, 100_000, 900_000)))


def unknown_session(draw: random.Random) -> bytes:
    return opening(draw.randbytes(16), resumed=True, received=draw.choice((0, 1, 2**32, 2**64 - 1)))


def impossible_receipt(draw: random.Random) -> bytes:
    return opening(draw.randbytes(16), received=draw.choice((1, 2**32, 2**64 - 1)))


def request_of_the_web(draw: random.Random) -> bytes:
    return draw.choice(
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    )


def name_of_another(draw: random.Random) -> bytes:
    return opening(draw.randbytes(16), name=draw.choice(("honest-0", "honest-1", *NAMES)))


OPENINGS: dict[str, Make] = {
    "opening: another's name, or none": name_of_another,
    "opening: noise": noise,
    "opening: damaged": damaged_opening,
    "opening: another version": other_version,
    "opening: cut off": cut_opening,
    "opening: a name longer than said": lying_name,
    "opening: a hello too large": large_hello,
    "opening: a session it never had": unknown_session,
    "opening: received what was never sent": impossible_receipt,
    "opening: another protocol": request_of_the_web,
}


# ------------------------------------------------------------------------------------- envelopes of a session let in


def short_envelope(draw: random.Random) -> bytes:
    return draw.randbytes(draw.randrange(24))


def no_such_kind(draw: random.Random) -> bytes:
    return struct.pack("<QQQ", draw.choice((0, 8, 9, 255, 2**63, 2**64 - 1)), 1, 0) + draw.randbytes(10)


def gap(draw: random.Random) -> bytes:
    return pack(Kind.PAYLOAD, draw.choice((2, 3, 1000, 2**64 - 1)), 0, b"later")


def never_sent(draw: random.Random) -> bytes:
    return pack(draw.choice((Kind.PAYLOAD, Kind.ACKNOWLEDGED)), 1, draw.choice((3, 1000, 2**64 - 1)), b"x")


def words_of_a_server(draw: random.Random) -> bytes:
    return pack(draw.choice((Kind.OPENED, Kind.UNKNOWN, Kind.WELCOME)), 1, 0, draw.randbytes(20))


ENVELOPES: dict[str, Make] = {
    "envelope: too short": short_envelope,
    "envelope: of no kind": no_such_kind,
    "envelope: out of order": gap,
    "envelope: acknowledges what was never sent": never_sent,
    "envelope: words of a server": words_of_a_server,
}


# ---------------------------------------------------------------------------------------------------- frames in them


def activation(draw: random.Random, **fields: int) -> bytes:
    shown = {"round": draw.randrange(5), "step": draw.randrange(5)} | fields
    tensors = {"activation": torch.randn(16, 4, 8, 8), "targets": torch.randint(0, 10, (16,))}
    return encode(Frame("activation", shown, tensors))


def head(length: int, header: bytes, body: bytes = b"", version: int = 1) -> bytes:
    return struct.pack("<4sII", b"SMOF", version, length) + header + body


def framed(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return head(len(text), text, body)


def listing(*tensors: object, kind: str = "activation", **fields: object) -> bytes:
    return framed({"kind": kind, "fields": fields, "tensors": list(tensors)}, bytes(64))


def damaged_frame(draw: random.Random) -> bytes:
    return mutated(activation(draw), draw)


def damaged_header(draw: random.Random) -> bytes:
    text = b'{"kind":"activation","fields":{"round":1,"step":2},"tensors":[["x","float32",[4,4],null,null]]}'
    return framed(mutated(text, draw), bytes(64))


def lying_length(draw: random.Random) -> bytes:
    return head(draw.choice((0, 1, 65_537, 2**31, 2**32 - 1)), b"{}", draw.randbytes(30))


def enormous_shape(draw: random.Random) -> bytes:
    shape = draw.choice(
        ([2**40], [2**20] * 2, [2**31] * 8, [-1, 5], [2**63], [1e9], ["4"], [0, 2**62], [True], [4] * 9)
    )
    return listing(["activation", "float32", shape, None, draw.choice((None, "int8"))])


def odd_tensor(draw: random.Random) -> bytes:
    one: list[object] = ["activation", "float32", [4, 4], None, None]
    one[draw.randrange(5)] = draw.choice(
        (None, 7, "object", [], [0, 0], {"a": 1}, "../x", "complex64", [1, 0, 2], "zip")
    )
    return listing(one)


def odd_fields(draw: random.Random) -> bytes:
    odd = draw.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 500, b"[" * 2000, b'{"a":1}', b'"\\ud800"'))
    return framed(b'{"kind":"activation","fields":{"round":' + odd + b'},"tensors":[]}')


def a_name_twice(draw: random.Random) -> bytes:
    return framed(b'{"kind":"activation","kind":"finished","fields":{},"tensors":[]}')


def code(draw: random.Random) -> bytes:
    return draw.choice((b"\x80\x04\x95cos\nsystem\n(S'id'\ntR.", b"cposix\nsystem\n", b"#!/bin/sh\n", b"PK\x03\x04"))


def right_frame_at_the_wrong_time(draw: random.Random) -> bytes:
    return activation(draw, round=draw.choice((0, 1, 2**31, -1)), step=draw.choice((0, 1, 2**31, -1)))


def message_of_a_server(draw: random.Random) -> bytes:
    fields: dict[str, object] = {"round": 0, "step": 0, "seed": 1, "reason": "x"}
    return listing(kind=draw.choice(KINDS), **fields)


def no_message(draw: random.Random) -> bytes:
    return framed({"kind": draw.choice(ODD_KINDS), "fields": {"reason": "x"}, "tensors": []})


def wrong_accepted(draw: random.Random) -> bytes:
    fields: dict[str, object] = {"samples": 100, "tests": 0, "layout": "0" * 64}
    fields[draw.choice(list(fields))] = draw.choice((-1, 2**62, "many", None, 1.5, True, [1], "x" * 5000))
    return framed({"kind": "accepted", "fields": fields, "tensors": []})


FRAMES: dict[str, Make] = {
    "frame: noise": noise,
    "frame: damaged": damaged_frame,
    "frame: damaged header": damaged_header,
    "frame: a length that lies": lying_length,
    "frame: an enormous shape": enormous_shape,
    "frame: an odd tensor": odd_tensor,
    "frame: numbers that are none": odd_fields,
    "frame: a name twice": a_name_twice,
    "frame: pickles and scripts": code,
    "message: right, at the wrong time": right_frame_at_the_wrong_time,
    "message: of a server": message_of_a_server,
    "message: of no kind": no_message,
    "message: accepts with impossible numbers": wrong_accepted,
}


# ------------------------ messages of a real session with one thing changed: a field, a type, a shape, an order, a l


SIZES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int8": 1, "bool": 1}
ODD: tuple[Any, ...] = (None, True, "", "0", "NaN", 0.5, -0.5, [], [0], {"a": 0}, [[[[[[0]]]]]], "../x", "x" * 3000)
FAR = (-1, -(2**31), -(2**63), 2**31, 2**31 + 1, 2**62, 2**63 - 1, 2**63, 10**30, 10**400)


@dataclass
class Draft:
    """A message in parts that can be changed one by one: its header, and the bytes of each tensor."""

    header: dict[str, Any]
    bodies: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, frame: Frame) -> Draft:
        listed = [
            [name, str(one.dtype).removeprefix("torch."), list(one.shape), None, None]
            for name, one in frame.tensors.items()
        ]
        header = {"kind": frame.kind, "fields": dict(frame.fields), "tensors": listed}
        return cls(copy.deepcopy(header), [one.contiguous().numpy().tobytes() for one in frame.tensors.values()])

    def text(self) -> bytes:
        return json.dumps(self.header, separators=(",", ":")).encode()

    def pack(self, text: bytes | None = None) -> bytes:
        """As bytes, with every tensor where it belongs."""
        text = self.text() if text is None else text
        message = struct.pack("<4sII", b"SMOF", 1, len(text)) + text
        for body in self.bodies:
            message += bytes(-len(message) % 64) + body
        return message

    def tensor(self, draw: random.Random) -> int:
        return draw.randrange(len(self.bodies))

    def refill(self, which: int) -> None:
        """As many bytes as its type and shape ask for, so that nothing but these is wrong."""
        _, dtype, shape, _, _ = self.header["tensors"][which]
        self.bodies[which] = bytes(math.prod(shape) * SIZES[dtype])


Forge = Callable[[Draft, random.Random], bytes]


# -------------------------------------------------------------------------------------------------------------- fields


def another_type(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    where, name = (fields, draw.choice(list(fields))) if fields and draw.random() < 0.8 else (draft.header, "kind")
    numbers = (float,) if type(where[name]) is float else ()  # of which any would do
    where[name] = draw.choice([one for one in ODD if one != where[name] and type(one) not in numbers])
    return draft.pack()


def out_of_range(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    fields[draw.choice([name for name in fields if type(fields[name]) is int])] = draw.choice(FAR)
    return draft.pack()


def another_round_or_step(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    name = draw.choice([name for name in ("round", "step") if name in fields])
    fields[name] += draw.choice((-2, -1, 1, 2, 3, 1000))
    return draft.pack()


def fields_missing_or_more(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    name = draw.choice([one for one in fields if one != "loss"])
    how = draw.randrange(4)
    if how == 0:
        del fields[name]
    elif how == 1:
        fields[draw.choice(("square_", "path", "seed", "samples_", "__class__", "Round", "x" * 65))] = 1
    elif how == 2:
        return draft.pack(draft.text().replace(b'"fields":{', b'"fields":{"%s":0,' % name.encode(), 1))
    else:
        draft.header[draw.choice(("code", "file", "fields_"))] = fields
    return draft.pack()


def no_number(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    fields[draw.choice(list(fields))] = draw.choice((math.nan, math.inf, -math.inf))
    return draft.pack()


def lists_in_lists(draft: Draft, draw: random.Random) -> bytes:
    deep = draw.choice((5, 9, 100, 900, 9000))
    nested = draw.choice((b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep, b"[" * deep))
    if draw.random() < 0.2:
        nested = b"[" + b"0," * 16_400 + b"0]"
    name = draw.choice([*draft.header["fields"], "tensors", "kind"])
    where = draft.header["fields"] if name in draft.header["fields"] else draft.header
    where[name] = "@"
    return draft.pack(draft.text().replace(b'"@"', nested))


def another_kind(draft: Draft, draw: random.Random) -> bytes:
    kinds = ["begin", "activation", "output", "returned", "cut_gradient", "finished", "rest", "evaluate", "evaluated"]
    kinds += ["accepted", "offer", "over", "pickle"]
    draft.header["kind"] = draw.choice([one for one in kinds if one != draft.header["kind"]])
    return draft.pack()


def counts_too_large(draft: Draft, draw: random.Random) -> bytes:
    fields = draft.header["fields"]
    more = draw.choice((1, 2, 1000, 2**31, 2**62))
    name = draw.choice(("samples", "correct"))
    fields[name] = fields["samples"] + more
    if name == "samples" and draw.random() < 0.5:
        fields["correct"] = fields["samples"]
    return draft.pack()


# ------------------------------------------------------------------------------------------------------------- tensors


def another_dtype(draft: Draft, draw: random.Random) -> bytes:
    which = draft.tensor(draw)
    listed = draft.header["tensors"][which]
    listed[1] = draw.choice([one for one in (*SIZES, "complex64", "object", "float8", "") if one != listed[1]])
    if listed[1] in SIZES and draw.random() < 0.7:
        draft.refill(which)
    return draft.pack()


def another_shape(draft: Draft, draw: random.Random) -> bytes:
    which = draft.tensor(draw)
    listed = draft.header["tensors"][which]
    shape = listed[2]
    changed = [[*shape, 1], [1, *shape], [2 * one for one in shape] or [2], [*shape, 2], [math.prod(shape), 1], [3, 5]]
    changed += [shape[1:], shape[:-1], [0, *shape], [7, *shape[1:]]]
    listed[2] = draw.choice([one for one in changed if one != shape])
    if draw.random() < 0.7:
        draft.refill(which)
    return draft.pack()


def impossible_shape(draft: Draft, draw: random.Random) -> bytes:
    listed = draft.header["tensors"][draft.tensor(draw)]
    shape: list[Any] = list(listed[2]) or [1]
    shape[draw.randrange(len(shape))] = draw.choice((*FAR, *ODD))
    listed[2] = draw.choice((shape, [2**20] * 4, [2**40], [1] * 9, "4", None, {"0": 1}, [[4]]))
    return draft.pack()


def another_order(draft: Draft, draw: random.Random) -> bytes:
    listed = draft.header["tensors"][draft.tensor(draw)]
    size = len(listed[2])
    orders = ([0] * (size + 1), [*range(size + 1)], [*range(1, size + 1)], [-1] * size or [1])
    listed[3] = draw.choice((*orders, "C", 1.5, {}, [None], ["0"]))
    return draft.pack()


def another_packing(draft: Draft, draw: random.Random) -> bytes:
    which = draft.tensor(draw)
    _, dtype, shape, _, _ = listed = draft.header["tensors"][which]
    listed[4] = draw.choice(("int8", "bf16", "float16", "fp32", "zip", "pickle", 8, [], True, {}))
    if listed[4] in ("bf16", "float16", "int8") and dtype == "float32" and draw.random() < 0.7:
        size = math.prod(shape)
        draft.bodies[which] = bytes(2 * size)
        if listed[4] == "int8":  # the numbers, and the step of each sample
            draft.bodies[which : which + 1] = [bytes(size), struct.pack("<f", 1e38) * (shape[0] if shape else 1)]
    return draft.pack()


def tensors_missing_or_more(draft: Draft, draw: random.Random) -> bytes:
    which, listed = draft.tensor(draw), draft.header["tensors"]
    how = draw.randrange(5)
    if how == 0:
        del listed[which], draft.bodies[which]
    elif how == 1:
        listed.append([draw.choice(("extra", "a" * 128, "weights_")), "int8", [4], None, None])
        draft.bodies.append(bytes(4))
    elif how == 2:
        listed.append(list(listed[which]))
        draft.bodies.append(draft.bodies[which])
    elif how == 3:
        listed[which][0] = draw.choice(("", "../x", "a/b", "a" * 129, 5, None, "é"))
    else:
        listed[which] = listed[which][: draw.randrange(5)]
    return draft.pack()


def labels_out_of_range(draft: Draft, draw: random.Random) -> bytes:
    which = [one[0] for one in draft.header["tensors"]].index("targets")
    labels = bytearray(draft.bodies[which])
    wrong = draw.choice((-1, -99, -101, 10, 11, 255, 2**31, 2**63 - 1, -(2**63)))
    struct.pack_into("<q", labels, 8 * draw.randrange(len(labels) // 8), wrong)
    draft.bodies[which] = bytes(labels)
    return draft.pack()


# ------------------------------------------------------------------------------------------------------------ as bytes


def truncated(draft: Draft, draw: random.Random) -> bytes:
    message = draft.pack()
    return message[: draw.choice((draw.randrange(len(message)), len(message) - 1, draw.randrange(13)))]


def extended(draft: Draft, draw: random.Random) -> bytes:
    return draft.pack() + draw.choice((b"\0", bytes(64), draw.randbytes(100), draft.pack()))


def flipped(draft: Draft, draw: random.Random) -> bytes:
    """Bits of the header or of what is before it: not of a tensor, nor of a field where another number would do."""
    message = bytearray(draft.pack())
    left = set(range(12 + len(draft.text())))
    for found in re.finditer(rb'"(?:loss|samples|correct)":([-+.e0-9]+)', message[12 : max(left) + 1]):
        left -= {12 + at for at in range(*found.span(1))}
    for at in draw.sample(sorted(left), draw.choice((1, 1, 1, 2, 5))):
        message[at] ^= 1 << draw.randrange(8)
    return bytes(message)


# ----------------------------------------------------------------------------------------------------------- the tables

ANY: dict[str, Forge] = {
    "field of another type": another_type,
    "field out of range": out_of_range,
    "fields missing, unknown or twice": fields_missing_or_more,
    "numbers that are none": no_number,
    "lists in lists": lists_in_lists,
    "another kind": another_kind,
    "truncated": truncated,
    "extended": extended,
    "bits flipped in the header": flipped,
}
"""Of any message."""

TENSORS: dict[str, Forge] = {
    "another dtype": another_dtype,
    "another shape": another_shape,
    "an impossible shape": impossible_shape,
    "an impossible order": another_order,
    "another packing": another_packing,
    "tensors missing, unknown or twice": tensors_missing_or_more,
}
"""Of a message with tensors."""

ROUND: dict[str, Forge] = {"another round or step": another_round_or_step}
"""Of a message of a round."""

LABELS: dict[str, Forge] = {"labels out of range": labels_out_of_range}
"""Of an activation with targets."""

COUNTS: dict[str, Forge] = {"evaluation counts too large": counts_too_large}
"""Of an evaluation."""


def forges_for(frame: Frame) -> dict[str, Forge]:
    """All that can be done to this message."""
    found = ANY | (TENSORS if frame.tensors else {}) | (ROUND if "round" in frame.fields else {})
    return found | (LABELS if "targets" in frame.tensors else {}) | (COUNTS if frame.kind == "evaluated" else {})


def with_odd_numbers(frame: Frame, draw: random.Random) -> Frame:
    """The same with numbers that are not finite, in one of its tensors of floating-point numbers."""
    name = draw.choice([name for name, one in frame.tensors.items() if one.is_floating_point() and one.numel()])
    tensor = frame.tensors[name].clone()
    tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice((math.nan, math.inf, -math.inf))
    return Frame(frame.kind, frame.fields, frame.tensors | {name: tensor})


def with_flipped_numbers(frame: Frame, draw: random.Random) -> Frame:
    """The same with bits flipped in its floating-point numbers, which may be large then, or tiny, or none."""
    name = draw.choice([name for name, one in frame.tensors.items() if one.is_floating_point() and one.numel()])
    tensor = frame.tensors[name].clone()
    stored = tensor.view(-1).view(torch.uint8)
    for _ in range(draw.choice((1, 8, 64))):
        stored[draw.randrange(stored.numel())] ^= 1 << draw.randrange(8)
    return Frame(frame.kind, frame.fields, frame.tensors | {name: tensor})
