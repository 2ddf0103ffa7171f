"""The three settings of time of a connection."""

from __future__ import annotations

from dataclasses import dataclass, fields

from smofi.errors import check_number

LONGEST = 1e6
"""Eleven days: gRPC counts milliseconds, and not much further."""

SANE = 0.1, 3600.0
"""What a server may tell its clients: more often would be a flood, and after an hour no NAT knows the connection."""


@dataclass(frozen=True)
class Times:
    """How long, in seconds.

    A peer that died without a word is noticed within 3.5 × keepalive + patience: 29 s as it stands.
    """

    patience: float = 15.0
    """How long a client may be away before the server counts it as gone."""

    keepalive: float = 4.0
    """How often each side asks a silent other for a sign of life; the answer may take 2.5 times as long."""

    connect: float = 10.0
    """How long making a connection may take, and then saying hello."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_number(field.name, getattr(self, field.name), above=0, high=LONGEST)

    def check_told(self) -> None:
        """Refuse what no client accepts from its server."""
        for name in ("keepalive", "connect"):
            check_number(name, getattr(self, name), low=SANE[0], high=SANE[1])


__all__ = ["SANE", "Times"]
