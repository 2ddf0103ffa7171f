"""What happened, in sentences with times; the oldest are forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smofi.net.plain import plain_text
from smofi.net.status.parts import Part

LEVELS = ("info", "warning", "error")
MOST_EVENTS = 300


@dataclass(frozen=True)
class Happened:
    """One event; `time` is in seconds since 1970."""

    number: int
    time: float
    level: str
    text: str

    def plain(self) -> dict[str, Any]:
        return vars(self)


class Events(Part[int, Happened]):
    """The last few hundred events, numbered from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0

    def add(self, text: str, level: str, time: float, version: int) -> None:
        self.last += 1
        self.put(self.last, Happened(self.last, time, level, plain_text(text, most=600)), version)
        if len(self.items) > MOST_EVENTS:
            self.forget_first()
