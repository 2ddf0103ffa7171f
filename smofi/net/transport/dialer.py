"""A client's end: it finds its server, and finds it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from smofi.errors import refuse_unwanted
from smofi.net.transport import background
from smofi.net.transport.addresses import is_loopback, parse
from smofi.net.transport.envelope import Kind, Parts, pack_sentence
from smofi.net.transport.limits import Limits
from smofi.net.transport.line import Event, Line
from smofi.net.transport.sizes import check_payload
from smofi.net.transport.target import Target
from smofi.net.transport.times import Times

Explain = Callable[[str, int], "str | None"]


class Dialer:
    """A conversation with the server at an address. A thread of its own keeps it going; the methods block.

    >>> dialer = Dialer("127.0.0.1:7443", None, lambda: b"hello", Limits(), Times(), name="a")
    >>> dialer.start()
    >>> dialer.receive(timeout=10).sentence.split("; ")[0]
    '127.0.0.1:7443 does not answer: nothing listens there'
    >>> dialer.close()
    """

    def __init__(
        self,
        address: str,
        credentials: Any,
        hello: Callable[[], bytes],
        limits: Limits,
        times: Times,
        name: str | None = None,
        explain: Explain | None = None,
    ) -> None:
        host, port = parse(address)
        if credentials is None and not is_loopback(host):
            refuse_unwanted("address", address, "without certificates, a client connects to 127.0.0.1 only")
        self._target = Target(host, port, credentials, name, explain)
        self._hello, self._limits, self._times = hello, limits, times
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to connect."""
        loop = background.acquire(self.close)
        background.run(loop, self._start())
        self._loop = loop

    async def _start(self) -> None:
        self._line = Line(self._target, self._hello, self._limits, self._times)
        self._running = asyncio.ensure_future(self._line.run())

    def send(self, payload: Parts) -> None:
        """Send a payload, in order; waits while too many are on their way. Dropped when the conversation is void."""
        check_payload(payload, self._limits.payload)
        if self._line.failed is not None:
            raise self._line.failed
        self._line.link.put(Kind.PAYLOAD, payload, wait=True)

    def receive(self, timeout: float | None = None) -> Event:
        """What comes next: Welcomed, Received, Restarted, Waiting or Resumed.

        Raises Dismissed when the server wants no more of this client, queue.Empty when nothing comes in time.
        """
        return self._line.inbox.get(timeout)

    def expect(self, largest: int) -> None:
        """How many bytes a payload may have from now on, either way."""
        self._limits = replace(self._limits, payload=largest)
        self._line.expect(largest)

    def keep_to(self, times: Times) -> None:
        """Other times from now on."""
        self._times = times
        self._line.keep_to(times)

    def close(self, goodbye: bool = True, reason: str = "it said goodbye") -> None:
        """End the conversation: with a goodbye the server knows at once, and why; without one it waits for a return."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                background.run(loop, self._close(goodbye, reason))
            finally:
                background.release(self.close)

    async def _close(self, goodbye: bool, reason: str) -> None:
        self._line.close(pack_sentence(Kind.GOODBYE, reason) if goodbye else None)
        if goodbye:
            await asyncio.wait({self._running}, timeout=5)
        while not self._running.done():  # Python's wait_for may swallow a cancellation
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=1)
        self._line.fail(RuntimeError("the connection is closed"))


__all__ = ["Dialer", "Explain"]
