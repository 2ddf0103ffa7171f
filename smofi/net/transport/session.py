"""A conversation that outlives its streams: every payload arrives once and in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from smofi.net.transport.envelope import (
    HEAD,
    LARGE_PIECE,
    PIECE,
    Buffer,
    Kind,
    Message,
    Parts,
    ProtocolError,
    joined,
    pack,
    pieces,
    unpack,
)

LARGEST = 2**40

FAST = 2**20
"""A network that carries this many bytes a second gets large pieces, and as many at a time as gRPC takes. On any other,
one small piece is under way at a time: signs of life wait behind it."""


class Kept(NamedTuple):
    """A message that is not acknowledged yet."""

    kind: Kind
    told: int  # what it acknowledges itself
    since: float
    queue: int  # bytes that were waiting with it, its own included
    message: bytes

    @property
    def ends(self) -> bool:
        """Whether a payload ends with it."""
        return self.kind != Kind.PIECE


class Session:
    """One side of a conversation. A payload is sent in pieces, numbered 1, 2, ... each way and kept until acknowledged.

    >>> here, there = Session(b"", 8, 1000), Session(b"", 8, 1000)
    >>> here.put(Kind.PAYLOAD, b"lost"), here.next() is None
    (True, False)
    >>> here.resume(there.received)  # the stream broke, and the other side says what it has received
    >>> bytes(there.take(here.next()).body)
    b'lost'

    `put` may be called from any thread, the rest from one.
    """

    def __init__(self, identity: bytes, most: int, most_bytes: int, largest: int = LARGEST) -> None:
        self.identity = identity
        self.received = 0
        self.changed = threading.Condition()
        self._putting = threading.Lock()  # the pieces of a payload follow each other
        self._most, self._most_bytes, self.largest = most, most_bytes, largest
        self._fast = False
        self._kept: deque[Kept] = deque()
        self._kept_bytes = self._kept_payloads = 0
        self._pieces: list[Buffer] = []  # of the payload that is arriving
        self._pieces_bytes = 0
        self._last = 0  # number of the newest message
        self._sent = self._under_way = 0  # how many of the kept ones were sent on this stream, and their bytes
        self._told = 0  # what the other side knows to be received here
        self._over = False

    # ------------------------------------------------------------------------------------------------------- sending

    def put(self, kind: Kind, parts: Parts, *, wait: bool = False, kept: Callable[[], object] = lambda: None) -> bool:
        """Number a payload and keep it until it is acknowledged; False when too many are kept already.

        With `wait` it waits for room. When the session is over, the payload is dropped. `kept` is called after each
        piece: it may be sent while the next one is copied.
        """
        with self._putting:
            with self.changed:
                while self._kept_payloads >= self._most or self._kept_bytes >= self._most_bytes:
                    if self._over or not wait:
                        return self._over
                    self.changed.wait()
            before = None
            for piece in pieces(parts, LARGE_PIECE if self._fast else PIECE):
                if before is not None:
                    self._keep(Kind.PIECE, before)
                    kept()
                before = piece
            self._keep(kind, before or [])
            kept()
            return True

    def _keep(self, kind: Kind, piece: list[memoryview]) -> None:
        with self.changed:
            if not self._over:
                self._append(kind, piece)

    def _append(self, kind: Kind, piece: list[memoryview]) -> None:
        self._last += 1
        told = self.received  # read once: the event loop may receive in between
        message = pack(kind, self._last, told, piece)
        self._kept_bytes += len(message)
        self._kept.append(Kept(kind, told, monotonic(), self._kept_bytes, message))
        self._kept_payloads += kind != Kind.PIECE

    def next(self) -> bytes | None:
        """The next message to send on this stream, if there is one and it may go before others have arrived."""
        with self.changed:
            if self._sent == len(self._kept):
                return None
            kept = self._kept[self._sent]
            under_way = self._under_way + len(kept.message)
            if self._under_way and under_way > HEAD + PIECE and not self._fast:
                return None
            self._sent, self._under_way = self._sent + 1, under_way
            self._told = max(self._told, kept.told)
            return kept.message

    def has_next(self) -> bool:
        """Whether there is a message to send on this stream."""
        return self._sent < len(self._kept)

    @property
    def owed(self) -> int:
        """How many messages were received and not acknowledged yet."""
        return self.received - self._told

    def acknowledgement(self) -> bytes:
        """A message that says what was received."""
        self._told = self.received
        return pack(Kind.ACKNOWLEDGED, 0, self.received)

    @property
    def progress(self) -> int:
        """How many messages have arrived, here and there, as far as this side knows."""
        return self.received + self._last - len(self._kept)

    def has_said_anything(self) -> bool:
        """Whether a payload was sent or received."""
        return self._last + self.received > 0

    @property
    def kept(self) -> int:
        """How many messages are not acknowledged."""
        return len(self._kept)

    # ----------------------------------------------------------------------------------------------------- receiving

    def resume(self, acknowledged: int) -> None:
        """There is a new stream; each side has told the other what it received. The rest is sent again."""
        self._acknowledge(acknowledged)
        with self.changed:
            self._sent, self._under_way, self._told = 0, 0, self.received
            self._fast = False
            self._cut_again()

    def _cut_again(self) -> None:
        """Nothing that is kept has arrived, so it may be numbered anew, in small pieces that get through."""
        if all(len(one.message) <= PIECE + HEAD for one in self._kept):
            return
        kept, self._kept = self._kept, deque()
        self._last -= len(kept)
        self._kept_bytes = self._kept_payloads = 0
        for one in kept:
            *others, last = pieces(memoryview(one.message)[HEAD:], PIECE)
            for piece in others:
                self._append(Kind.PIECE, piece)
            self._append(one.kind, last)

    def take(self, data: bytes) -> Message | None:
        """A message of the other side, or None for one that was received already; raises ProtocolError."""
        message = unpack(data)
        if message.kind < Kind.ACKNOWLEDGED:
            return message
        self._acknowledge(message.acknowledged)
        if message.kind == Kind.ACKNOWLEDGED:
            return message
        if message.number > self.received + 1:
            raise ProtocolError(f"payload {message.number} came after payload {self.received}")
        if message.number <= self.received:
            return None
        return self._whole(message)

    def _whole(self, message: Message) -> Message:
        """A piece as it is; with the last piece, all of the payload."""
        size = self._pieces_bytes + len(message.body)
        if size > self.largest or len(self._pieces) > 8 + self.largest // 1024:  # pieces of nothing take room, too
            raise ProtocolError(f"a payload has more than {self.largest} bytes")
        self.received = message.number
        if message.kind == Kind.PIECE:
            self._pieces.append(message.body)
            self._pieces_bytes = size
            return message
        if self._pieces:
            message = replace(message, body=joined((*self._pieces, message.body)))
            self._pieces, self._pieces_bytes = [], 0
        return message

    def _acknowledge(self, number: int) -> None:
        with self.changed:
            if number > self._last:
                raise ProtocolError(f"payload {number} was acknowledged, but only {self._last} were sent")
            while self._kept and self._last - len(self._kept) < number:
                kept = self._kept.popleft()
                self._kept_bytes -= len(kept.message)
                self._kept_payloads -= kept.ends
                if self._sent:
                    self._sent, self._under_way = self._sent - 1, self._under_way - len(kept.message)
                if kept.queue >= PIECE:  # less says nothing about the network
                    self._fast = kept.queue > FAST * (monotonic() - kept.since)
            self.changed.notify_all()

    def end(self) -> None:
        """The session is over: nothing is kept, and whoever waits for room is let go."""
        with self.changed:
            self._over, self._kept_bytes, self._kept_payloads, self._sent, self._under_way = True, 0, 0, 0, 0
            self._kept.clear()
            self._pieces, self._pieces_bytes = [], 0
            self.changed.notify_all()
