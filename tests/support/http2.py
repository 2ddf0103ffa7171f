"""HTTP/2 by hand, for clients that gRPC would not be: those that take no answers."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

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
    with suppress(OSError), connection.makefile("rb") as received:
        while head := received.read(9):
            kind, flags, body = head[3], head[4], received.read(int.from_bytes(head[:3], "big"))
            if kind in (PING, SETTINGS) and not flags & ACKNOWLEDGED:
                connection.sendall(frame(kind, ACKNOWLEDGED, 0, body if kind == PING else b""))
