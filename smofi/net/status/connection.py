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
        self._last: Any = None
        self._timer = self.loop.call_later(SILENCE, self._look)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close it if no page is being sent, and none was asked for since the last look."""
        if self.cycle is self._last and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()
            return
        self._last = self.cycle
        self._timer = self.loop.call_later(SILENCE, self._look)
