"""What was aimed at, and whether it was reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from shared.rows import Row, spread


@dataclass(frozen=True)
class Goal:
    """What was aimed at, what was found, and whether that is enough; None where nothing was measured."""

    text: str
    found: str
    met: bool | None


def at_most(text: str, rows: Sequence[Row], most: float, unit: str = "x") -> Goal:
    """No row's median is above `most`. The worst row is shown.

    >>> at_most("little", [{"values": [1.0]}, {"values": [1.1]}], 1.05)
    Goal(text='little', found='1.100x', met=False)
    """
    worst = max(rows, key=_median, default=None)
    return _goal(text, worst, lambda value: value <= most, unit)


def at_least(text: str, rows: Sequence[Row], least: float, unit: str = "x") -> Goal:
    """No row's median is below `least`. The worst row is shown."""
    worst = min(rows, key=_median, default=None)
    return _goal(text, worst, lambda value: value >= least, unit)


def _goal(text: str, worst: Row | None, enough: Callable[[float], bool], unit: str) -> Goal:
    if worst is None:
        return Goal(text, "not measured", None)
    return Goal(text, spread(worst["values"]) + unit, enough(_median(worst)))


def _median(row: Row) -> float:
    return float(median(row["values"]))
