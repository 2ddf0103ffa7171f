"""A client's connection, made again and again for as long as it is wanted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from smofi.net.logs import log
from smofi.net.plain import plain_text
from smofi.net.transport.backlog import Backlog, Mailbox
from smofi.net.transport.backoff import Backoff
from smofi.net.transport.channels import BROKEN, METHOD, SERVICE, client_options, grpc
from smofi.net.transport.envelope import (
    SESSION,
    Kind,
    Message,
    Opening,
    ProtocolError,
    pack_opening,
    sentence_in,
    unpack,
)
from smofi.net.transport.events import Dismissed, Received, Restarted, Waiting, Welcomed
from smofi.net.transport.gate import Refused
from smofi.net.transport.limits import Limits
from smofi.net.transport.link import Goodbye, Link
from smofi.net.transport.session import Session
from smofi.net.transport.target import Target
from smofi.net.transport.times import Times

logger = logging.getLogger("smofi.net")
LONGEST_SENTENCE = 1000
"""Characters of what is said while waiting. Some of it comes from whoever answers, trusted or not."""


@dataclass(frozen=True)
class Resumed:
    """To a client that was told to wait: the connection is back, and the conversation goes on where it was."""


Event: TypeAlias = Welcomed | Received | Restarted | Waiting | Resumed


class Unknown(Exception):
    """The server knows nothing of this session."""


class Failed(Exception):
    """No connection came about, and why."""


class Line:
    """Keeps a client's conversation with its server going. It belongs to the event loop, but for `session`."""

    def __init__(self, target: Target, hello: Callable[[], bytes], limits: Limits, times: Times) -> None:
        self.inbox: Mailbox[Event] = Mailbox()
        self._target, self._hello, self._limits, self._times = target, hello, limits, times
        self._backlog = Backlog(asyncio.get_running_loop(), limits.waiting, limits.waiting_bytes)
        self._backoff = Backoff()
        self._closing, self._renewing = asyncio.Event(), asyncio.Event()
        self._connected = self._waited = False
        self.failed: Exception | None = None
        self._begin()
        self.session, self.link = self._session, self._link
        """The conversation that the application knows of."""

    def _begin(self) -> None:
        """A new conversation."""
        limits = self._limits
        identity = secrets.token_bytes(SESSION)
        self._session = Session(identity, limits.waiting, limits.waiting_bytes, limits.payload)
        self._link = Link(self._session, self._limits, self._deliver, self._backlog)
        self._link.may_send = False  # before the welcome
        self._opened = False

    # ----------------------------------------------------------------------------------------------------- for ever

    async def run(self) -> None:
        """Connect, talk, and connect again; ends when it is closed or dismissed."""
        try:
            while not self._closing.is_set():
                pause = await self._try()
                if pause > 0:
                    await self._pause(pause)
        except (Dismissed, Refused) as dismissed:
            log(logger, "dismissed", level="warning", address=str(self._target), reason=str(dismissed))
            self.fail(Dismissed(str(dismissed)))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log(logger, "connection_failed", level="error", exc_info=True, address=str(self._target))
            self.fail(error)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _try(self) -> float:
        """One connection, from its beginning to its end; returns the seconds to wait before the next."""
        try:
            await self._converse()
        except Unknown:
            self._void()
            return 0.0
        except Goodbye as goodbye:
            return self._goodbye(goodbye)
        except ProtocolError as error:
            self._void()
            return self._wait(f"{self._target} does not keep to the protocol: {error}")
        except asyncio.TimeoutError:
            return self._wait(await self._target.why(f"{self._target} does not answer"))
        except Failed as failed:
            return self._wait(await self._target.why(str(failed)))
        except BROKEN as error:
            log(logger, "stream_broke", level="debug", address=str(self._target), reason=str(error))
        if self._renewing.is_set():
            return 0.0
        log(logger, "disconnected", level="warning", address=str(self._target))
        return self._backoff.next()

    def _goodbye(self, goodbye: Goodbye) -> float:
        if goodbye.final:
            raise Dismissed(goodbye.sentence)
        if goodbye.refused and self._connected:
            self._void(refused=True)
        return self._wait(f"{self._target} says: {goodbye.sentence}")

    def _wait(self, sentence: str) -> float:
        pause, sentence = self._backoff.next(), plain_text(sentence, LONGEST_SENTENCE)
        log(logger, "trying_again", address=str(self._target), reason=sentence, seconds=round(pause, 1))
        self._waited = True
        self.inbox.replace_last((Waiting, Resumed), Waiting(f"{sentence}; trying again in {pause:.1f} s"))
        return pause

    def _void(self, refused: bool = False) -> None:
        """What was said is void. What the application sends is dropped until it has seen that."""
        old = self._session
        said = old.has_said_anything()
        old.end()
        self._begin()
        session, link = self._session, self._link

        def seen() -> None:
            self.session, self.link = session, link

        if said:
            self.inbox.put(Restarted(refused), seen)
        elif self.session is old:
            seen()

    def expect(self, largest: int) -> None:
        """From any thread: no payload that comes from now on may have more bytes."""
        self._limits = replace(self._limits, payload=largest)
        self._session.largest = self.session.largest = largest

    def keep_to(self, times: Times) -> None:
        """From any thread: these times hold from now on. How often a connection asks for signs of life is fixed when
        it is made, so for another number it is made anew; the conversation goes on."""
        before, self._times = self._times, times
        if times.keepalive != before.keepalive:
            self._backlog.loop.call_soon_threadsafe(self._renewing.set)

    def fail(self, error: Exception) -> None:
        """It is over: whoever sends or receives is told so."""
        self.failed = error
        self._session.end()
        self.session.end()
        self.inbox.fail(error)

    # -------------------------------------------------------------------------------------------- one connection

    async def _converse(self) -> None:
        self._connected, session, before = False, self._session, self._session.progress
        self._renewing.clear()
        channel = self._target.channel(client_options(self._times))
        try:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            try:
                try:
                    await asyncio.wait_for(self._open(call), self._times.connect)
                except BROKEN:
                    raise Failed(await self._target.failure(call)) from None
                if self._opened and self._waited:
                    self.inbox.replace_last((Waiting,), Resumed())
                self._connected, self._opened, self._waited = True, True, False
                log(logger, "connected", address=str(self._target))
                await self._carry(call)
            finally:
                call.cancel()
                if session.progress > before:  # a server that only opens and closes is not tried again at once
                    self._backoff.reset()
        finally:
            await channel.close()

    async def _carry(self, call: Any) -> None:
        """Talk until the stream ends, or is to be made anew."""
        tasks = [asyncio.ensure_future(one) for one in (self._link.run(call), self._renewing.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, call: Any) -> None:
        hello = b"" if self._opened else await asyncio.get_running_loop().run_in_executor(None, self._hello)
        if len(hello) > self._limits.hello:
            raise Dismissed(f"the hello has {len(hello)} bytes; at most {self._limits.hello} are accepted")
        name, session = self._target.name or "", self._session
        await call.write(pack_opening(Opening(session.identity, self._opened, session.received, name, hello)))
        answer = await call.read()
        if answer is grpc.aio.EOF:
            raise ProtocolError("it ends the stream without an answer")
        message = unpack(answer)
        if message.kind == Kind.OPENED:
            session.resume(message.acknowledged)
        elif message.kind == Kind.UNKNOWN and self._opened:
            raise Unknown
        elif message.kind == Kind.REFUSED:
            raise Goodbye(sentence_in(message), refused=True, final=message.number == 1)
        else:
            raise ProtocolError(f"it answers with a message of kind {message.kind.name}")

    def _deliver(self, message: Message) -> None:
        if self._link.may_send != (message.kind == Kind.PAYLOAD):
            raise ProtocolError("a welcome comes first, and once")
        self._link.may_send = True
        self._link.wake_soon()
        payload, backlog = message.body, self._backlog
        backlog.add(len(payload))
        event = Received(payload) if message.kind == Kind.PAYLOAD else Welcomed(payload)
        self.inbox.put(event, lambda: backlog.taken(len(payload)))

    # --------------------------------------------------------------------------------------------------------- end

    def close(self, last_words: bytes | None) -> None:
        """Connect no more; with last words, say them after what was sent before."""
        self._closing.set()
        if last_words is not None:
            self._link.finish(last_words)
