"""Messages that no client of ours would send, by kind of attack; each is made anew from a seed.

Three levels: the first message of a stream, the envelope of a session that was let in, and the frame in an envelope.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

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
