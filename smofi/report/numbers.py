"""Write numbers as text: shares, times, bytes and counts, each in one way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

UNKNOWN = "-"


def percent(value: float | None) -> str:
    """Write an accuracy or another share with one decimal."""
    return f"{value:.1%}" if _known(value) else UNKNOWN


def percent_with_spread(mean: float, deviation: float | None) -> str:
    """Write a mean share and its standard deviation, which a single value does not have."""
    return percent(mean) if deviation is None else f"{100 * mean:.1f} ± {percent(deviation)}"


def fine_percent(value: float) -> str:
    """Write a share that may be small, with two decimals below 1%."""
    return f"{value:.1%}" if value >= 0.01 else f"{value:.2%}"


def three_digits(value: float | None) -> str:
    """Write three significant digits, without trailing zeros: for a number in a sentence."""
    if not _known(value):
        return UNKNOWN
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def four_digits(value: float | None) -> str:
    """Write four significant digits, without trailing zeros: for a measured number."""
    return UNKNOWN if value is None else f"{value:.4g}"


def figure(value: float, decimals: int = 20) -> str:
    """Write three significant digits with trailing zeros, and at most `decimals` decimals: for a column of numbers."""
    needed = 0 if value >= 100 or value == 0 else 2 - math.floor(math.log10(value))
    return f"{value:,.{min(needed, decimals)}f}"


def count(number: float) -> str:
    """Write a number of operations in thousands, millions or billions."""
    if number >= 1e9:
        return f"{number / 1e9:.2f}G"
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.1f}k"


def megabytes(size: float) -> str:
    """Write bytes to send or to compute with, in decimal units."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def mebibytes(size: int) -> str:
    """Write bytes of memory or of a file, in the binary units that operating systems use."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"


def hours_minutes_seconds(seconds: float | None) -> str:
    """Write a time as a clock shows it."""
    if not _known(seconds):
        return UNKNOWN
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def duration(seconds: float) -> str:
    """Write a time in words, from milliseconds to days."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24:02d} h"


class TimeUnit(NamedTuple):
    """A unit of time and its length."""

    name: str
    seconds: float


HOURS, MINUTES, SECONDS = TimeUnit("hours", 3600.0), TimeUnit("minutes", 60.0), TimeUnit("seconds", 1.0)


def time_unit(longest: float, units: Sequence[TimeUnit] = (HOURS, MINUTES, SECONDS), at_least: float = 2.0) -> TimeUnit:
    """Choose the unit for several times: the largest of which the longest time, in seconds, is `at_least` two."""
    return next((unit for unit in units if longest >= at_least * unit.seconds), units[-1])


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
