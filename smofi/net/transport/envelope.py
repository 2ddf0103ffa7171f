"""The bytes before a payload, and the few messages that carry none.

opening    "smofi", resumed?, version, session, received, length of the name, name, hello
any other  kind, number, acknowledged (8 bytes each, so that numbers in a payload stay aligned), body
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

VERSION = 1
"""Of the protocol. The first eight bytes of an opening, and a refusal, stay as they are in every version."""

SENTENCE, NAME, SESSION = 2000, 200, 16
"""The most bytes of a sentence and of a name; the bytes of a session's identity."""

PIECE, LARGE_PIECE = (512 + 16) * 1024, (2048 + 64) * 1024
"""The most bytes of a payload in one message, and on a network that has proved fast. What arrived of a payload
before a blink need not be sent again, so that large ones get through a slow network that blinks often. Large pieces
take less time in all, since gRPC sends one message at a time; 2 MiB of numbers fit into one of them, or into four."""

ALIGNED = 64
"""Where a payload of several pieces begins in memory: at a multiple of this, so that its tensors can stay there."""

Buffer: TypeAlias = bytes | bytearray | memoryview
Parts: TypeAlias = Buffer | Sequence[Buffer]
"""A payload, whole or in parts that are joined when it is sent."""


class ProtocolError(Exception):
    """The other side broke the protocol, and how."""


class Kind(IntEnum):
    """What a message is."""

    OPENED = 1  # the server's answer to an opening; acknowledged: what it has received in this session
    UNKNOWN = 2  # the server knows no such session
    REFUSED = 3  # number: 1 when trying again cannot help; body: why
    GOODBYE = 4  # body: why
    ACKNOWLEDGED = 5
    PIECE = 6  # from here on with a number: a piece of a payload, and more to come
    WELCOME = 7  # the last piece of a welcome, or all of it
    PAYLOAD = 8  # the last piece of a payload, or all of it


_HEAD = struct.Struct("<QQQ")
_MAGIC = struct.Struct("<5s?H")
_OPENING = struct.Struct(f"<5s?H{SESSION}sQH")
HEAD = _HEAD.size


@dataclass(frozen=True)
class Message:
    """Any message but an opening. `body` may share the memory of what was received."""

    kind: Kind
    number: int
    acknowledged: int
    body: Buffer


@dataclass(frozen=True)
class Opening:
    """A client's first message on a stream."""

    session: bytes
    resumed: bool
    received: int
    name: str
    hello: bytes


def pack(kind: Kind, number: int = 0, acknowledged: int = 0, parts: Parts = b"") -> bytes:
    """A message as bytes; the parts of its body are copied once.

    >>> message = unpack(pack(Kind.PAYLOAD, 7, 3, [b"ab", b"c"]))
    >>> message.kind.name, message.number, message.acknowledged, bytes(message.body)
    ('PAYLOAD', 7, 3, b'abc')
    """
    body = [parts] if isinstance(parts, (bytes, bytearray, memoryview)) else parts
    return b"".join((_HEAD.pack(kind, number, acknowledged), *body))


def pieces(parts: Parts, most: int) -> Iterator[list[memoryview]]:
    """A payload in pieces of `most` bytes, but for the last; nothing is copied.

    >>> [[bytes(part) for part in piece] for piece in pieces([b"ab", b"c"], 9)]
    [[b'ab', b'c']]
    >>> [sum(map(len, piece)) for piece in pieces([bytes(3), bytes(4)], 4)], list(pieces(b"", 4))
    ([4, 3], [[]])
    """
    piece: list[memoryview] = []
    room = most
    for part in [parts] if isinstance(parts, (bytes, bytearray, memoryview)) else parts:
        view = memoryview(part).cast("B")
        while len(view) > room:
            piece.append(view[:room])
            yield piece
            view, piece, room = view[room:], [], most
        if len(view):
            piece.append(view)
            room -= len(view)
    yield piece


def joined(parts: Sequence[Buffer]) -> memoryview:
    """The parts one after the other, in new memory that begins at a multiple of 64 bytes, as that of tensors does.

    >>> bytes(joined([b"ab", b"c"]))
    b'abc'
    """
    size = sum(map(len, parts))
    room = np.empty(size + ALIGNED, np.uint8)
    start = -room.ctypes.data % ALIGNED
    view, end = room.data[start : start + size], 0
    for part in parts:
        view[end : end + len(part)] = part
        end += len(part)
    return view


def unpack(message: bytes) -> Message:
    """The parts of a message; raises ProtocolError."""
    if len(message) < HEAD:
        raise ProtocolError(f"a message has {len(message)} bytes; the shortest has {HEAD}")
    kind, number, acknowledged = _HEAD.unpack_from(message)
    if kind not in _KINDS:
        raise ProtocolError(f"there is no kind {kind} of messages")
    return Message(Kind(kind), number, acknowledged, memoryview(message)[HEAD:])


_KINDS = frozenset(int(kind) for kind in Kind)


def pack_sentence(kind: Kind, sentence: str, *, final: bool = False) -> bytes:
    """A refusal or a goodbye."""
    return pack(kind, int(final), 0, sentence.encode("utf-8", "replace")[:SENTENCE])


def sentence_in(message: Message) -> str:
    """The sentence of a refusal or a goodbye, made printable: it may come from anywhere.

    >>> sentence_in(unpack(pack_sentence(Kind.GOODBYE, "training is over")))
    'training is over'
    """
    text = bytes(message.body[:SENTENCE]).decode("utf-8", "replace")
    return "".join(one if one.isprintable() else " " for one in text).strip()


def pack_opening(opening: Opening) -> bytes:
    """A client's first message."""
    name = opening.name.encode()
    head = _OPENING.pack(b"smofi", opening.resumed, VERSION, opening.session, opening.received, len(name))
    return head + name + opening.hello


def unpack_opening(message: bytes, most: int) -> Opening:
    """What a client opens with, if it speaks our version and its hello has at most `most` bytes; or ProtocolError.

    >>> unpack_opening(pack_opening(Opening(bytes(16), False, 0, "a", b"hi")), 10).hello
    b'hi'
    """
    if len(message) < _MAGIC.size or not message.startswith(b"smofi"):
        raise ProtocolError("the first message is not one of smofi's")
    if (version := _MAGIC.unpack_from(message)[2]) != VERSION:
        raise ProtocolError(
            f"the server speaks version {VERSION} of the protocol and the client version {version}: "
            "install the same version of smofi on both sides"
        )
    if len(message) < _OPENING.size:
        raise ProtocolError("the first message is cut off")
    _, resumed, _, session, received, length = _OPENING.unpack_from(message)
    start = _OPENING.size + length
    if length > NAME or len(message) < start:
        raise ProtocolError(f"the name has {length} bytes; at most {NAME} are accepted, and all have to be there")
    if len(message) - start > most:
        raise ProtocolError(f"the hello has {len(message) - start} bytes; at most {most} are accepted")
    try:
        name = message[_OPENING.size : start].decode()
    except UnicodeDecodeError:
        raise ProtocolError("the name is not UTF-8") from None
    return Opening(session, bool(resumed), received, name, message[start:])
