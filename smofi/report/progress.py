"""How far a run has come, and the few pieces of text that say so."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from smofi.report.curves import Curve, finite

LATELY = 5  # rounds that say how long the next ones will take
RECENT = 200  # rounds among which they are looked for


@dataclass
class Progress:
    """A run's rounds so far; an accuracy is None where there was no evaluation, `inside` is the part of the current
    round that is done, `virtual` the virtual seconds since the run began, None without a clock.

    >>> run = Progress("smofi", rounds=10, accuracies=[0.5, 0.7], seconds=[2.0, 2.0])
    >>> run.best, run.left
    (0.7, 16.0)
    """

    name: str
    rounds: int
    accuracies: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    inside: float = 0.0
    state: str = "waiting"
    ticks: int = 1
    virtual: float | None = None

    @property
    def done(self) -> int:
        return len(self.accuracies)

    @property
    def part(self) -> float:
        """The part of the run that is done, from 0 to 1."""
        return min(1.0, (self.done + self.inside) / max(1, self.rounds))

    @property
    def last(self) -> float | None:
        """The latest that is known."""
        return next((value for value in reversed(self.accuracies) if value is not None), None)

    @property
    def best(self) -> float | None:
        return max(finite(self.accuracies), default=None)

    @property
    def pace(self) -> float | None:
        """Seconds a round, lately: those with an evaluation and those without one, each as often as they were."""
        latest = zip(reversed(self.seconds[-RECENT:]), reversed(self.accuracies[-RECENT:]), strict=False)
        kinds: dict[bool, list[float]] = {}
        for seconds, accuracy in latest:
            kinds.setdefault(accuracy is None, []).append(seconds)
        total = sum(len(kind) * median(kind[:LATELY]) for kind in kinds.values())
        return total / sum(map(len, kinds.values())) if kinds else None

    @property
    def left(self) -> float | None:
        """Seconds until the last round, if it goes on like this."""
        return None if self.pace is None else self.pace * max(0.0, self.rounds - self.done - self.inside)


def percent(value: float | None) -> str:
    """An accuracy for reading.

    >>> percent(0.8123), percent(None)
    ('81.2%', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:.1%}"


def clock(seconds: float | None) -> str:
    """A duration for reading.

    >>> clock(75), clock(3675), clock(None)
    ('1:15', '1:01:15', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def three_digits(seconds: float | None) -> str:
    """Seconds a round, or hours: three digits, whatever their size.

    >>> three_digits(0.01234), three_digits(1.234), three_digits(123.4)
    ('0.0123', '1.23', '123')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.3g}"


def time_unit(hours: float) -> tuple[str, int]:
    """The unit that suits so many hours, and how many of it an hour has.

    >>> time_unit(25.0), time_unit(0.5)
    (('hours', 1), ('minutes', 60))
    """
    units = {"hours": 1, "minutes": 60}
    return next(((unit, number) for unit, number in units.items() if hours * number >= 2), ("seconds", 3600))


def bar(part: float, width: int, *, unicode: bool) -> tuple[str, str]:
    """A bar of this width, as what is done and what is not.

    >>> bar(0.5, 4, unicode=False)
    ('##', '--')
    """
    full, empty = ("━", "─") if unicode else ("#", "-")
    done = int(part * width)
    return full * done, empty * (width - done)


def peak_memory() -> str:
    """The most memory this process has held so far; empty where the system does not say.

    >>> peak_memory().endswith("iB")
    True
    """
    try:
        import resource
    except ImportError:
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size(peak if sys.platform == "darwin" else 1024 * peak)  # macOS counts bytes, others KiB


def size(count: int) -> str:
    """A number of bytes for reading.

    >>> size(300 * 2**20), size(5 * 2**30), size(3000)
    ('300 MiB', '5.0 GiB', '3 KiB')
    """
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def drawable(curves: Sequence[Curve]) -> bool:
    """Whether there is anything to draw."""
    return any(finite(curve) for curve in curves)
