"""Write numbers as text: shares, times, bytes and counts, each in one way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

UNKNOWN = "-"


def percent(value: float | None) -> str:
    """Write an accuracy or another share with one decimal.

    >>> percent(0.8123), percent(None)
    ('81.2%', '-')
    """
    return f"{value:.1%}" if _known(value) else UNKNOWN


def percent_with_spread(mean: float, deviation: float | None) -> str:
    """Write a mean share and its standard deviation, which a single value does not have.

    >>> percent_with_spread(0.6, 0.283), percent_with_spread(0.6, None)
    ('60.0 ± 28.3%', '60.0%')
    """
    return percent(mean) if deviation is None else f"{100 * mean:.1f} ± {percent(deviation)}"


def fine_percent(value: float) -> str:
    """Write a share that may be small, with two decimals below 1%.

    >>> fine_percent(0.2750), fine_percent(0.0031)
    ('27.5%', '0.31%')
    """
    return f"{value:.1%}" if value >= 0.01 else f"{value:.2%}"


def three_digits(value: float | None) -> str:
    """Write three significant digits, without trailing zeros: for a number in a sentence.

    >>> three_digits(0.01234), three_digits(1.5), three_digits(1234.5)
    ('0.0123', '1.5', '1234')
    """
    if not _known(value):
        return UNKNOWN
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def four_digits(value: float | None) -> str:
    """Write four significant digits, without trailing zeros: for a measured number.

    >>> four_digits(0.012345), four_digits(41.0), four_digits(None)
    ('0.01235', '41', '-')
    """
    return UNKNOWN if value is None else f"{value:.4g}"


def figure(value: float, decimals: int = 20) -> str:
    """Write three significant digits with trailing zeros, and at most `decimals` decimals: for a column of numbers.

    >>> figure(12345.6), figure(12.345), figure(0.17), figure(0.01234, decimals=3), figure(0)
    ('12,346', '12.3', '0.170', '0.012', '0')
    """
    needed = 0 if value >= 100 or value == 0 else 2 - math.floor(math.log10(value))
    return f"{value:,.{min(needed, decimals)}f}"


def count(number: float) -> str:
    """Write a number of operations in thousands, millions or billions.

    >>> count(763_520), count(555_422_720), count(1_159_402_496)
    ('763.5k', '555.4M', '1.16G')
    """
    if number >= 1e9:
        return f"{number / 1e9:.2f}G"
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.1f}k"


def megabytes(size: float) -> str:
    """Write bytes to send or to compute with, in decimal units.

    >>> megabytes(512), megabytes(2_540_000), megabytes(3_000_000_000)
    ('0.5 kB', '2.5 MB', '3.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def mebibytes(size: int) -> str:
    """Write bytes of memory or of a file, in the binary units that operating systems use.

    >>> mebibytes(300 * 2**20), mebibytes(5 * 2**30), mebibytes(3000)
    ('300 MiB', '5.0 GiB', '3 KiB')
    """
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"


def hours_minutes_seconds(seconds: float | None) -> str:
    """Write a time as a clock shows it.

    >>> hours_minutes_seconds(75), hours_minutes_seconds(3675), hours_minutes_seconds(None)
    ('1:15', '1:01:15', '-')
    """
    if not _known(seconds):
        return UNKNOWN
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def duration(seconds: float) -> str:
    """Write a time in words, from milliseconds to days.

    >>> duration(0.0123), duration(75.2), duration(3725), duration(200_000)
    ('12 ms', '75 s', '1 h 02 min', '2 d 08 h')
    """
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
    """Choose the unit for several times: the largest of which the longest time, in seconds, is `at_least` two.

    >>> time_unit(25 * 3600.0).name, time_unit(1800.0).name, time_unit(1.0).name
    ('hours', 'minutes', 'seconds')
    """
    return next((unit for unit in units if longest >= at_least * unit.seconds), units[-1])


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
