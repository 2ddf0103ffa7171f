"""When a device takes part: intervals of a trace that repeats itself."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smofi.errors import check_number, refuse

SHORTEST = 1e-3
"""Seconds that an interval lasts at least, so that it is still one when 30,000 years are added to its ends."""


@dataclass(frozen=True)
class Presence:
    """Available during these intervals `(from, to)`, in order and apart, of a trace of `period` seconds that
    repeats."""

    intervals: Sequence[tuple[float, float]]
    period: float

    def __post_init__(self) -> None:
        check_number("period", self.period, low=SHORTEST, infinite=True)
        before = -math.inf
        for start, end in self.intervals:
            if not (before < start and 0 <= start <= end - SHORTEST and end <= self.period < math.inf):
                refuse(
                    "intervals",
                    (start, end),
                    f"intervals of {SHORTEST:g} s or more between 0 and a finite period, in order and apart",
                )
            before = end

    @classmethod
    def merged(cls, intervals: Iterable[tuple[float, float]], period: float) -> Presence:
        """From intervals in any order: those that overlap or touch become one, those of no length are dropped.

        >>> Presence.merged([(7.0, 9.0), (1.0, 3.0), (2.0, 4.0), (5.0, 5.0)], period=10.0).intervals
        [(1.0, 4.0), (7.0, 9.0)]
        """
        merged: list[tuple[float, float]] = []
        for start, end in sorted(intervals):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            elif end > start:
                merged.append((start, end))
        return cls(merged, period)

    def leaves(self, now: float) -> float:
        """When it leaves, if it is available at this time; the time itself if it is not.

        >>> Presence([(10.0, 20.0)], period=100.0).leaves(115.0)
        120.0
        """
        if self.period == math.inf:
            return math.inf
        cycle = self._cycle(now)
        at = self._started(now, cycle) - 1
        if at < 0 or now >= self._end(cycle, at):
            return now
        if self.intervals[at][1] == self.period and self.intervals[0][0] == 0.0:  # it stays on, into the next cycle
            return self._end(cycle + 1, 0) if at else math.inf
        return self._end(cycle, at)

    def comes(self, now: float) -> float:
        """The earliest time from now on when it is available.

        >>> Presence([(10.0, 20.0)], period=100.0).comes(150.0)
        210.0
        """
        if self.leaves(now) > now:
            return now
        if not self.intervals:
            return math.inf
        cycle = self._cycle(now)
        at = self._started(now, cycle)
        return self._start(cycle, at) if at < len(self.intervals) else self._start(cycle + 1, 0)

    # Times are rounded, so all are compared as `cycle * period + time`, and never taken apart again: what `comes` gives
    # is a time when it is available.

    def _cycle(self, now: float) -> int:
        """How often the trace has repeated."""
        near = math.floor(now / self.period)
        return near - (now < near * self.period) + (now >= (near + 1) * self.period)

    def _started(self, now: float, cycle: int) -> int:
        """How many of the cycle's intervals have started."""
        return bisect_right(self.intervals, now, key=lambda interval: cycle * self.period + interval[0])

    def _start(self, cycle: int, at: int) -> float:
        return cycle * self.period + self.intervals[at][0]

    def _end(self, cycle: int, at: int) -> float:
        end = self.intervals[at][1]
        return (cycle + 1) * self.period if end == self.period else cycle * self.period + end


ALWAYS = Presence([], math.inf)
