"""Phones, as they are written: phones, or phones(rtt_ms=80) for a server that is further away."""

from __future__ import annotations

from dataclasses import dataclass

from smofi.errors import InputError, check_number, refuse
from smofi.spec import build, read_calls

NAME = "phones"

RTT_MS = 28.0
"""Ookla's Speedtest Global Index, November 2022: the latency of mobile networks worldwide, to a test server nearby. One
figure for all phones, for no distribution is published with it."""


@dataclass(frozen=True)
class Phones:
    """Drawn from public measurements, with a round trip to the server that takes this many milliseconds.

    >>> str(Phones()), str(Phones(rtt_ms=80))
    ('phones', 'phones(rtt_ms=80)')
    """

    rtt_ms: float = RTT_MS

    def __str__(self) -> str:
        return NAME if self.rtt_ms == RTT_MS else f"{NAME}(rtt_ms={self.rtt_ms:.12g})"


def phones(rtt_ms: float = RTT_MS) -> Phones:
    """Those with this round-trip time; 0 leaves it out."""
    return Phones(check_number("rtt_ms", rtt_ms, low=0))


def read_phones(text: object) -> Phones | None:
    """The phones that a string stands for, None if it names no phones.

    >>> read_phones("phones"), read_phones("fleet.csv")
    (Phones(rtt_ms=28.0), None)
    >>> read_phones("phones(rtt_ms=-1)")
    Traceback (most recent call last):
    smofi.errors.InputError: devices='phones(rtt_ms=-1)' is not accepted: expected phones, or phones(rtt_ms=N), N >= 0
    """
    if not isinstance(text, str) or not text.strip().startswith(NAME) or text.endswith(".csv"):
        return None
    try:
        (call,) = read_calls("devices", text, NAME)
        return build({NAME: phones}[call.name], call)
    except (InputError, KeyError, ValueError):
        refuse("devices", text, "phones, or phones(rtt_ms=N), N >= 0")
