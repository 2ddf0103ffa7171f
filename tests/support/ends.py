"""Servers and clients of the transport for tests: closed when a test ends, with nothing left behind. All that tests
know of `smofi.net.transport` comes from here."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any, TypeVar

from smofi.net.transport.dialer import Dialer
from smofi.net.transport.envelope import HEAD, Kind, Message, Opening, pack, pack_opening, sentence_in, unpack
from smofi.net.transport.events import Arrived, Dismissed, Joined, Left, Received, Restarted, Waiting, Welcomed
from smofi.net.transport.gate import Gate, Refused
from smofi.net.transport.limits import Limits
from smofi.net.transport.line import Resumed
from smofi.net.transport.listener import Listener
from smofi.net.transport.times import Times
from support.ports import free_port

__all__ = [
    "HEAD",
    "Dismissed",
    "Kind",
    "Message",
    "Opening",
    "Refused",
    "pack",
    "pack_opening",
    "sentence_in",
    "unpack",
]
__all__ += ["Arrived", "Joined", "Left", "Received", "Restarted", "Waiting", "Welcomed"]

QUICK = Times(patience=1.5, keepalive=0.5, connect=2.0)
SOON = 40.0
"""Seconds in which anything here should happen, on a machine that has much else to do."""

T = TypeVar("T")
TICK = 0.01


def eventually(condition: Callable[[], Any], seconds: float = SOON) -> bool:
    """Whether something becomes true in time."""
    end = monotonic() + seconds
    while not condition():
        if monotonic() > end:
            return False
        sleep(0.005)
    return True


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    """All of the process, gRPC's own included."""
    return len(os.listdir("/proc/self/task"))


class Ends:
    """What makes servers and clients, and closes them."""

    def __init__(self) -> None:
        self._close = contextlib.ExitStack()
        self.port = 0

    def listen(
        self,
        *,
        port: int = 0,
        limits: Limits | None = None,
        times: Times = QUICK,
        credentials: Any = None,
        gate: Gate | None = None,
    ) -> Listener:
        """A server that listens at `self.port`."""
        listener = Listener(f"127.0.0.1:{port or free_port()}", credentials, gate, limits or Limits(), times)
        self.port = listener.start()
        self._close.callback(listener.stop, "the test is over", 1.0)
        return listener

    def dial(
        self,
        name: str = "a",
        *,
        port: int | None = None,
        hello: bytes = b"hello",
        limits: Limits | None = None,
        times: Times = QUICK,
        **others: Any,
    ) -> Dialer:
        """A client that connects to `self.port`, or to another one."""
        address = f"localhost:{self.port if port is None else port}"
        credentials = others.pop("credentials", None)
        dialer = Dialer(address, credentials, lambda: hello, limits or Limits(), times, name, **others)
        dialer.start()
        self._close.callback(dialer.close, goodbye=False)
        return dialer

    def pair(self, name: str = "a", **others: Any) -> tuple[Listener, Dialer]:
        """A server and a client it has welcomed."""
        listener = self.listen(**others)
        dialer = self.dial(name)
        welcome(listener, name)
        assert heard(dialer, Welcomed) == Welcomed(b"welcome")
        return listener, dialer

    def close(self) -> None:
        self._close.close()


def told(listener: Listener, kind: type[T], seconds: float = SOON) -> T:
    """The server's next event, which is of this kind."""
    event = listener.events.get(seconds)
    assert isinstance(event, kind), event
    return event


def welcome(listener: Listener, name: str) -> Joined:
    joined = told(listener, Joined)
    assert joined.name == name
    listener.welcome(name, b"welcome")
    return joined


def heard(dialer: Dialer, kind: type[T], seconds: float = SOON) -> T:
    """The client's next event but for Waiting and Resumed, which is of this kind."""
    end = monotonic() + seconds
    while True:
        event = dialer.receive(max(0.0, end - monotonic()))
        if isinstance(event, kind):
            return event
        assert isinstance(event, Waiting | Resumed), event


def quiet(listener: Listener, seconds: float) -> bool:
    """Whether nothing happens for that long."""
    try:
        event = listener.events.get(seconds)
    except queue.Empty:
        return True
    raise AssertionError(event)


@contextlib.contextmanager
def echoing(listener: Listener) -> Iterator[list[Joined | Left]]:
    """A thread that welcomes clients and sends back what they send; gives who joined and left."""
    seen: list[Joined | Left] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                event = listener.events.get(0.05)
            except queue.Empty:
                continue
            if isinstance(event, Arrived):
                listener.send(event.name, event.payload)
            else:
                seen.append(event)
                if isinstance(event, Joined):
                    listener.welcome(event.name, b"welcome")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def listener_at(address: str, credentials: Any = None) -> Listener:
    """A server that has not started."""
    return Listener(address, credentials, None, Limits(), Times())


def dialer_to(address: str) -> Dialer:
    return Dialer(address, None, lambda: b"", Limits(), QUICK)


@contextlib.contextmanager
def own_time() -> Iterator[Callable[[], float]]:
    """Asked, it says how many seconds this process has had: real ones, but a tick that took more than twice as long
    counts as two, for the machine did something else."""
    stop, had = threading.Event(), [0.0]

    def count() -> None:
        before = monotonic()
        while not stop.is_set():
            sleep(TICK)
            now = monotonic()
            had[0] += min(now - before, 2 * TICK)
            before = now

    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield lambda: had[0]
    finally:
        stop.set()
        counting.join()


# HTTP/2 by hand, for clients that gRPC would not be

SETTINGS, HEADERS, DATA, PING = 4, 1, 0, 6
ACKNOWLEDGED, END_OF_HEADERS = 1, 4
INITIAL_WINDOW = 4


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + body


def opened_stream(port: int, window: int, *messages: bytes) -> socket.socket:
    """A connection with one stream on which these messages are sent, and of whose answers `window` bytes are taken."""
    connection = socket.create_connection(("127.0.0.1", port))
    fields = {":method": "POST", ":scheme": "http", ":path": "/smofi.Training/Join", ":authority": "localhost"}
    fields |= {"content-type": "application/grpc", "te": "trailers"}
    literal = b"".join(b"\0" + b"".join(bytes([len(one)]) + one.encode() for one in field) for field in fields.items())
    sent = [b"\0" + struct.pack(">I", len(message)) + message for message in messages]
    connection.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, window))
        + frame(HEADERS, END_OF_HEADERS, 1, literal)
        + b"".join(frame(DATA, 0, 1, message) for message in sent)
    )
    threading.Thread(target=_answer_pings, args=(connection,), daemon=True).start()
    return connection


def _answer_pings(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection.makefile("rb") as received:
        while head := received.read(9):
            kind, flags, body = head[3], head[4], received.read(int.from_bytes(head[:3], "big"))
            if kind in (PING, SETTINGS) and not flags & ACKNOWLEDGED:
                connection.sendall(frame(kind, ACKNOWLEDGED, 0, body if kind == PING else b""))
