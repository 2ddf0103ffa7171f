"""Whether a new stream is looked at, before anything of it is read: how many there are, and how fast they come."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from smofi.net.transport.bucket import Bucket
from smofi.net.transport.limits import Limits

STRANGERS = 4
"""Of the streams that have not said yet who they are, how many may show the same certificate."""

RATE, AT_ONCE = 5.0, 20.0
"""Streams that a certificate may open in a second, and in a row. A client whose connection breaks again and again waits
0.05 s at first, and then twice as long each time."""

HOLD, HELD = 1.0, 1024
"""Seconds after which a stream that is not taken is told so, and how many wait for that at a time. A connection has
four streams, so whoever opens one after the other is slowed down; a refusal at once would only make it try faster."""

REMEMBERED = 1000
"""Of how many certificates it is remembered how fast they open streams."""


class Door:
    """Counts streams that have not said yet who they are, and all streams by certificate; None stands for plain text,
    where a client names itself and no limit would hold it.

    >>> door = Door(Limits())
    >>> [door.closed(b"cert", 0, now=0.0) is None for _ in range(21)].count(True)
    20
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._strangers: Counter[bytes | None] = Counter()
        self._held = 0
        self._rates: OrderedDict[bytes, Bucket] = OrderedDict()

    def closed(self, pem: bytes | None, streams: int, *, now: float) -> str | None:
        """Why a stream with this certificate is not taken now, beside this many others that are let in."""
        if pem is not None and not self._rate(pem, now).try_to_take(1, now=now):
            return f"too many connections with this certificate in a short time: at most {RATE:g} a second are taken"
        if self._strangers.total() >= self._limits.strangers or streams >= self._limits.streams:
            return "the server has as many connections as it takes"
        if pem is not None and self._strangers[pem] >= STRANGERS:
            return "the server has as many connections with this certificate as it takes"
        return None

    @contextmanager
    def stranger(self, pem: bytes | None) -> Iterator[None]:
        """A stream of which it is not known yet who it is."""
        self._strangers[pem] += 1
        try:
            yield
        finally:
            self._strangers[pem] -= 1
            if not self._strangers[pem]:
                del self._strangers[pem]

    async def hold(self, patience: float) -> None:
        """Let a stream that is not taken wait, for a fifth of a client's patience at most."""
        if self._held < HELD:
            self._held += 1
            try:
                await asyncio.sleep(min(HOLD, patience / 5))
            finally:
                self._held -= 1

    def _rate(self, pem: bytes, now: float) -> Bucket:
        rate = self._rates.pop(pem, None) or Bucket(RATE, AT_ONCE, now=now)
        self._rates[pem] = rate
        if len(self._rates) > REMEMBERED:
            self._rates.popitem(last=False)
        return rate
