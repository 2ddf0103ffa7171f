"""How a server reaches its clients, as far as a round needs to know, and what it expects of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from smofi.engine.remote.messages import Down, Up


@dataclass(frozen=True)
class Shape:
    """What a tensor has to be: its type, its sizes, and for classes how many there are."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    classes: int | None = None


@dataclass(frozen=True)
class Expected:
    """The one message that may come next: its kind, round and step, and its tensors. `square` tells that |g|² must be
    part of it; `most` is how many samples can have been judged."""

    kind: type[Up]
    round: int
    step: int = 0
    tensors: dict[str, Shape] = field(default_factory=dict)
    square: bool = False
    most: int = 0


@dataclass(frozen=True)
class Lost:
    """A client is gone, or has sent something that cannot be used; `diverged`: numbers that are not finite."""

    reason: str
    diverged: bool = False


class Links(Protocol):
    """A connection to every client, by the client's number."""

    def send(self, client: int, message: Down, expected: Expected | None = None) -> None:
        """Pass a message on; a client that is away for a moment gets it when it is back. Anything but what is expected
        in return is refused, and the client with it."""

    def receive(self, timeout: float | None) -> tuple[int, Up | Lost] | None:
        """The next message of any client; None if there is none in this many seconds."""
