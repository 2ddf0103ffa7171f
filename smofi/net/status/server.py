"""The web server of the status pages, in a thread of its own: the run never waits for it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from smofi.errors import InputError
from smofi.net.status.access import TOKEN_VARIABLE, Access, parse_address
from smofi.net.status.board import Board

if TYPE_CHECKING:
    import uvicorn

SEND_BUFFER = 2**17  # bytes that the system keeps at most for a reader that takes nothing
QUIET = logging.NullHandler()
GRACE = 1.0  # seconds that readers have to take leave when the server stops


class StatusServer:
    """Serves a board at an address until it is stopped. Not on this machine alone, it asks readers for a token: the
    one given, or that of SMOFI_STATUS_TOKEN, or one that it makes, which is part of the address it returns.

    >>> with StatusServer(Board(), "127.0.0.1:0") as url:
    ...     url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, board: Board, address: str, token: str | None = None) -> None:
        self.board, self.address = board, address
        self.host, self.port = parse_address(address)
        self.access = Access.decide(self.host, token or os.environ.get(TOKEN_VARIABLE) or None)
        self._thread: threading.Thread | None = None
        self._running: Running | None = None

    def start(self) -> str:
        """Serve from now on. Returns the address for a browser."""
        if self._thread is not None:
            raise RuntimeError("this status server has been started already")
        needed()
        listening = listen(self.address, self.host, self.port)
        self.port = listening.getsockname()[1]
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening, ready), name="smofi-status", daemon=True)
        self._thread.start()
        ready.wait()
        return self.access.url(self.host, self.port)

    def stop(self) -> None:
        """Send all readers away and end the thread. Once more changes nothing."""
        if self._thread is None or self._running is None:
            return
        self._running.call(self._running.stop)
        self._thread.join(GRACE)
        if self._thread.is_alive():  # a reader that takes nothing
            self._running.call(self._running.cut_off)
            self._thread.join()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, listening: socket.socket, ready: threading.Event) -> None:
        try:
            with listening:
                asyncio.run(self._serve(listening, ready))
        finally:
            ready.set()

    async def _serve(self, listening: socket.socket, ready: threading.Event) -> None:
        import uvicorn

        from smofi.net.status.app import Pages
        from smofi.net.status.connection import Connection

        stopping = asyncio.Event()
        config = uvicorn.Config(
            Pages(self.board, stopping).app(self.access),
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        # What uvicorn says of broken requests goes where logging is set up to go, not to the terminal.
        logging.getLogger("uvicorn.error").addHandler(QUIET)
        self._running = Running(uvicorn.Server(config), asyncio.get_running_loop(), stopping)
        ready.set()
        await self._running.server.serve(sockets=[listening])


@dataclass(frozen=True)
class Running:
    """A server that serves; its methods are for its own thread, reached by `call`."""

    server: uvicorn.Server
    loop: asyncio.AbstractEventLoop
    stopping: asyncio.Event

    def call(self, method: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # its thread has ended
            self.loop.call_soon_threadsafe(method)

    def stop(self) -> None:
        self.server.should_exit = True
        self.stopping.set()

    def cut_off(self) -> None:
        for connection in list(self.server.server_state.connections):
            connection.transport.abort()


def listen(address: str, host: str, port: int) -> socket.socket:
    """A socket that listens, or a sentence why there is none."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"status={address!r} is not accepted: {host} is no address here ({error.strerror})") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # connections inherit it
        listening.bind(place)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise InputError(f"status={address!r} is not accepted: {_why(error, host, port)}") from None
    return listening


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken by another program; name another one, or 0 for any"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; 127.0.0.1 is for this machine alone, 0.0.0.0 for all"
    if error.errno == errno.EACCES:
        return f"port {port} is not allowed to this user; name one above 1023"
    return f"the server cannot listen there ({error.strerror})"


def needed() -> None:
    """Refuse in a sentence where a package of the extra is missing."""
    for package in ("starlette", "uvicorn", "prometheus_client"):
        try:
            __import__(package)
        except ModuleNotFoundError:
            raise InputError(f'{package} is not installed; it comes with: pip install "smofi[net]"') from None
