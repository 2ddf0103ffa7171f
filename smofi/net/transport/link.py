"""A session over the stream it has at the moment: one task reads, one writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from smofi.net.transport.backlog import Backlog
from smofi.net.transport.bucket import Bucket
from smofi.net.transport.channels import grpc
from smofi.net.transport.envelope import HEAD, Kind, Message, Parts, ProtocolError, sentence_in
from smofi.net.transport.limits import Limits
from smofi.net.transport.session import Session

ACKNOWLEDGE_AFTER, ACKNOWLEDGE_EVERY = 0.05, 8
"""Seconds and messages: mostly an answer comes first, and carries the acknowledgement."""

ACKNOWLEDGE_PIECE_AFTER = 0.005
"""Seconds, for a piece of a payload: on a slow network the next one waits for it."""

MOST_EMPTY = 1000
"""How many messages may come in a row that bring nothing new."""


class Stream(Protocol):
    """What the two ends of a gRPC stream have in common."""

    async def read(self) -> Any: ...

    async def write(self, message: bytes) -> None: ...


@dataclass
class Traffic:
    """Bytes of payloads, and of all messages as they are handed to gRPC."""

    payloads_in: int = 0
    payloads_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    heard: float = 0.0


class Goodbye(Exception):
    """The other side ended the conversation; `refused` when it wants no more of it, `final` when for good."""

    def __init__(self, sentence: str, *, refused: bool, final: bool = False) -> None:
        super().__init__(sentence)
        self.sentence, self.refused, self.final = sentence, refused, final


class Link:
    """A session, what it has received and what is to be sent. But for `put` and `wake_soon`, it is the event loop's."""

    def __init__(self, session: Session, limits: Limits, deliver: Callable[[Message], None], backlog: Backlog) -> None:
        self.session, self.traffic = session, Traffic(heard=monotonic())
        self.may_send = self.may_receive = True
        """Whether payloads may go and come; a client's come and go after its welcome only."""
        self._loop = asyncio.get_running_loop()
        self._deliver, self._backlog = deliver, backlog
        now = monotonic()
        self._rates = Bucket(limits.messages_per_second, now=now), Bucket(limits.bytes_per_second, now=now)
        self._wake, self._waking = asyncio.Event(), False
        self._last_words: bytes | None = None
        self._patient = False
        self._acknowledge_now = False
        self._timer: asyncio.TimerHandle | None = None
        self._empty = 0

    def put(self, kind: Kind, parts: Parts, *, wait: bool = False) -> bool:
        """From any thread: send a payload, as `Session.put` says."""
        return self.session.put(kind, parts, wait=wait, kept=self.wake_soon)

    def wake_soon(self) -> None:
        """From any thread: there is something to send."""
        if not self._waking and not self._loop.is_closed():
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake.set)

    def finish(self, last_words: bytes, *, patient: bool = False) -> None:
        """Send what waits, then this, then end the stream; if `patient`, once the other side has hung up. The end of a
        stream can overtake what was written before it."""
        self._last_words, self._patient = last_words, patient
        self._wake.set()

    async def run(self, stream: Stream, first: bytes | None = None) -> None:
        """Carry the session over a stream until it ends; raises Goodbye, ProtocolError or what gRPC raises."""
        if first is not None:
            await stream.write(first)
        reader = asyncio.ensure_future(self._read(stream))
        writer = asyncio.ensure_future(self._write(stream))
        tasks = {reader, writer}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if writer in done and writer.exception() is None and (hasattr(stream, "done_writing") or self._patient):
                if hasattr(stream, "done_writing"):  # a client stays until the server has read all
                    await stream.done_writing()
                done, _ = await asyncio.wait({reader}, timeout=5)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def _write(self, stream: Stream) -> None:
        traffic, session = self.traffic, self.session
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._waking = False
            while self.may_send and (message := session.next()) is not None:
                await stream.write(message)
                traffic.bytes_out += len(message)
                traffic.payloads_out += len(message) - HEAD
            if self._acknowledge_now and session.owed:
                await stream.write(message := session.acknowledgement())
                traffic.bytes_out += len(message)
            self._acknowledge_now = False
            if self._last_words is not None and not (self.may_send and session.has_next()):
                await stream.write(self._last_words)
                return

    async def _read(self, stream: Stream) -> None:
        while True:
            await self._backlog.room()
            data = await stream.read()
            if data is grpc.aio.EOF:
                return
            self._received(data)
            now = monotonic()
            pause = max(self._rates[0].take(1, now=now), self._rates[1].take(len(data), now=now))
            if pause:
                await asyncio.sleep(pause)

    def _received(self, data: bytes) -> None:
        self.traffic.heard = monotonic()
        self.traffic.bytes_in += len(data)
        before = self.session.kept
        message = self.session.take(data)
        if self.session.kept < before and self.session.has_next():
            self._wake.set()  # what has arrived made way for the next
        if message is None or message.kind == Kind.ACKNOWLEDGED:
            self._empty = 0 if self.session.kept < before else self._empty + 1
            if self._empty > MOST_EMPTY:
                raise ProtocolError(f"{MOST_EMPTY} messages in a row brought nothing new")
            return
        self._empty = 0
        if message.kind in (Kind.REFUSED, Kind.GOODBYE):
            refused = message.kind == Kind.REFUSED
            raise Goodbye(sentence_in(message), refused=refused, final=refused and message.number == 1)
        if message.kind not in (Kind.PIECE, Kind.PAYLOAD, Kind.WELCOME):
            raise ProtocolError(f"a message of kind {message.kind.name} came in the middle of a stream")
        if not self.may_receive:
            raise ProtocolError("a payload came before the welcome")
        self.traffic.payloads_in += len(data) - HEAD
        self._acknowledge_within(ACKNOWLEDGE_PIECE_AFTER if message.kind == Kind.PIECE else ACKNOWLEDGE_AFTER)
        if message.kind != Kind.PIECE:
            self._deliver(message)

    def _acknowledge_within(self, seconds: float) -> None:
        if self.session.owed >= ACKNOWLEDGE_EVERY:
            self._acknowledge()
        elif self._timer is None:
            self._timer = self._loop.call_later(seconds, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._acknowledge_now = True
        self._wake.set()
