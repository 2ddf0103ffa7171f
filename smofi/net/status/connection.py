"""A connection to the status page: their number is limited, and none stays that asks for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 100
SILENCE = 10.0  # seconds in which a connection asks for a page, or is closed


class Connection(H11Protocol):
    """Each takes a file descriptor of the process that trains, before it has shown a token; uvicorn waits for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.made = self.loop.time()
        self._last: Any = None
        self._timer = self.loop.call_later(SILENCE, self._look)
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """The oldest to which nothing is being sent has to go: a health check that has just come is answered."""
        others = [one for one in self.connections if isinstance(one, Connection) and one.idle]
        min(others, key=lambda one: one.made, default=self).transport.abort()

    @property
    def idle(self) -> bool:
        """Whether nothing is being sent; not while it is being closed."""
        sent = self.cycle is None or self.cycle.response_complete
        return sent and not self.transport.is_closing()

    def _look(self) -> None:
        """Close it if no page is being sent, and none was asked for since the last look."""
        if self.cycle is self._last and self.idle:
            self.transport.abort()
            return
        self._last = self.cycle
        self._timer = self.loop.call_later(SILENCE, self._look)
