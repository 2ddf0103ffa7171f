"""One client, as the server sees it: its session, and the stream it has at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from smofi.net.transport.backlog import Backlog, Mailbox
from smofi.net.transport.envelope import Kind, Message, Opening, ProtocolError, pack
from smofi.net.transport.events import Arrived, Joined, Left
from smofi.net.transport.limits import Limits
from smofi.net.transport.link import Link, Stream, Traffic
from smofi.net.transport.session import Session


@dataclass(frozen=True)
class PeerStatus:
    """A client at this moment: how many messages to it may not have arrived, and how many seconds ago its last came."""

    connected: bool
    welcomed: bool
    unheard: int
    address: str
    silent: float
    traffic: Traffic


class Peer:
    """A client's conversation with this server. It belongs to the event loop."""

    def __init__(self, name: str, opening: Opening, limits: Limits, events: Mailbox[Joined | Arrived | Left]) -> None:
        self.name, self.hello, self.address = name, opening.hello, ""
        self.session = Session(opening.session, limits.waiting, limits.waiting_bytes, limits.payload)
        self._backlog = Backlog(asyncio.get_running_loop(), limits.waiting, limits.waiting_bytes)
        self.link = Link(self.session, limits, self._deliver, self._backlog)
        self.link.may_receive = False  # before its welcome
        self.pem: bytes | None = None
        self.over = self.away = self.dismissed = False
        self._events = events
        self._stream: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        """Whether it has a stream."""
        return self._stream is not None and not self._stream.done()

    async def carry(self, stream: Stream) -> None:
        """Run over this stream until it ends or is interrupted; raises what `Link.run` raises."""
        opened = pack(Kind.OPENED, 0, self.session.received)
        task = self._stream = asyncio.ensure_future(self.link.run(stream, opened))
        self.stop_waiting()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # gRPC ended the stream, and with it this coroutine
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # it may have ended by itself: why does not matter
            raise
        if not task.cancelled():
            task.result()

    async def interrupt(self) -> None:
        """End the stream it has; the conversation goes on. When this returns, nothing runs over it any more."""
        while self._stream is not None and not self._stream.done():
            self._stream.cancel()
            await asyncio.wait({self._stream})

    def status(self, now: float) -> PeerStatus:
        """How it is at this moment."""
        traffic = self.link.traffic
        known = self.connected, self.link.may_receive, self.session.kept, self.address
        return PeerStatus(*known, now - traffic.heard, replace(traffic))

    async def ended(self, timeout: float) -> None:
        """Wait until it has no stream, but not for ever."""
        if self._stream is not None:
            await asyncio.wait({self._stream}, timeout=timeout)

    def wait_for_return(self, patience: float, expired: Callable[[], None]) -> None:
        """It is away: call `expired` unless it is back in time."""
        self.stop_waiting()
        self._expiry = asyncio.get_running_loop().call_later(patience, expired)

    def stop_waiting(self) -> None:
        """It is back, or gone."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _deliver(self, message: Message) -> None:
        if message.kind != Kind.PAYLOAD:
            raise ProtocolError("a client cannot welcome a server")
        payload, backlog = message.body, self._backlog
        backlog.add(len(payload))
        self._events.put(Arrived(self.name, payload), lambda: backlog.taken(len(payload)))
