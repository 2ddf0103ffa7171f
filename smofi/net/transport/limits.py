"""How much a peer may send, so that memory is bounded whatever it sends."""

from __future__ import annotations

from dataclasses import dataclass, fields

from smofi.errors import check_count, refuse_unwanted
from smofi.net.transport.envelope import PIECE

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes. The two rates slow a client down; nothing is lost."""

    payload: int = 256 * MIB
    """The largest payload."""

    hello: int = 64 * KIB
    """The largest hello: what a client may send before it is welcomed."""

    waiting: int = 64
    """Payloads each way that wait: received and not taken yet, or sent and not acknowledged yet."""

    waiting_bytes: int = 512 * MIB
    """The same, in bytes."""

    messages_per_second: int = 5_000
    """Of each client."""

    bytes_per_second: int = 512 * MIB
    """Of each client. A connection within a machine carries about 650 MB a second one way; a client that waits for its
    answers sends less than half of that."""

    streams: int = 1024
    """Connected clients."""

    strangers: int = 64
    """Streams that have not said yet who they are."""

    connections: int = 4096
    """All that are open, as far as the limit on open files has room. One that says nothing takes 20 to 30 KiB."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count(field.name, getattr(self, field.name), high=PIECE if field.name == "hello" else None)
        if self.waiting_bytes < self.payload:
            refuse_unwanted("waiting_bytes", self.waiting_bytes, f"it holds no payload of {self.payload} bytes")


__all__ = ["Limits", "KIB", "MIB"]
