"""What happened on a connection, as the application is told."""

from __future__ import annotations

from dataclasses import dataclass

from smofi.net.transport.envelope import Buffer


@dataclass(frozen=True)
class Joined:
    """To the server: a client began a conversation. Answer with `welcome` or `dismiss`."""

    name: str
    hello: bytes


@dataclass(frozen=True)
class Arrived:
    """To the server: a client's payload."""

    name: str
    payload: Buffer


@dataclass(frozen=True)
class Left:
    """To the server: a client's conversation is over. It comes once for every `Joined`. `refused` when it was this side
    that wanted no more of it."""

    name: str
    reason: str
    refused: bool = False


@dataclass(frozen=True)
class Welcomed:
    """To a client: the server took its hello and answers."""

    payload: Buffer


@dataclass(frozen=True)
class Received:
    """To a client: the server's payload."""

    payload: Buffer


@dataclass(frozen=True)
class Restarted:
    """To a client: the conversation so far is over. What was sent and not answered is void. `refused` when the server
    says why, and `Waiting` has it; otherwise it knows nothing of the conversation."""

    refused: bool = False


@dataclass(frozen=True)
class Waiting:
    """To a client: what it waits for, in a sentence."""

    sentence: str


class Dismissed(Exception):
    """To a client: the server does not want it, and trying again cannot help."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


__all__ = ["Joined", "Arrived", "Left", "Welcomed", "Received", "Restarted", "Waiting", "Dismissed"]
