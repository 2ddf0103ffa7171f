"""The small values of a message, each checked by its name as it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from smofi.net.frames import BadFrame
from smofi.net.header import reject

MOST = 2**31

LARGEST_LOSS = 1e30
"""No loss that anyone trains with is larger, and sums of a great many such are still finite in any precision."""


class NotFinite(BadFrame):
    """A message as it should be, but for numbers: its sender's model has diverged."""


class Fields:
    """The small values of a message, each asked for once; `end` refuses any that were not."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.left = dict(values)

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self.left.pop(name, None)
        if type(value) is not int or not low <= value <= high:
            reject(f"fields.{name}", value, str(low) if low == high else f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        value = self.left.pop(name, None)
        if type(value) not in (int, float) or not low <= value <= high:
            reject(f"fields.{name}", value, f"a number from {low:g} to {high:g}")
        return float(value)

    def loss(self) -> float:
        """A training loss; one beyond all bounds is as good as infinite."""
        value = self.number("loss", -sys.float_info.max, sys.float_info.max)
        if abs(value) > LARGEST_LOSS:
            raise NotFinite("fields.loss", f"is {value:g}: expected {-LARGEST_LOSS:g} to {LARGEST_LOSS:g}")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.left.pop(name, None)
        if type(value) is not bool:
            reject(f"fields.{name}", value, "true or false")
        return value

    def text(self, name: str, longest: int) -> str:
        """Text of at most `longest` characters."""
        value = self.left.pop(name, None)
        if type(value) is not str or len(value) > longest:
            reject(f"fields.{name}", value, f"text of at most {longest} characters")
        return value

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """A list of `count` numbers, none of them negative."""
        value = self.left.pop(name, None)
        listed = type(value) is list and len(value) == count
        if not listed or any(type(one) not in (int, float) or not 0 <= one <= MOST for one in value):
            reject(f"fields.{name}", value, f"a list of {count} numbers from 0 to {MOST}")
        return tuple(map(float, value))

    def square(self, needed: bool) -> float | None:
        """|g|² of the other side, where it is needed, and only there."""
        return self.number("square", 0, sys.float_info.max) if needed else None

    def end(self) -> None:
        """Refuse what is left."""
        for name, value in self.left.items():
            reject(f"fields.{name}", value, "no such field")
