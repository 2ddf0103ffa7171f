"""The mean over seeds and its spread, round by round: what every curve of several seeds shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from smofi.report.history import History

BAND = "The line is the mean over seeds, the band one standard deviation either side of it."
"""What a band is, for captions."""


@dataclass(frozen=True)
class Band:
    """A method over its seeds. `mean`, `low` and `high` have a value for each round: None where it was not evaluated,
    NaN where a run has diverged. With one seed, `low` and `high` are the mean. With a clock, `hours` has the mean
    virtual time at the end of each round."""

    name: str
    seeds: int
    mean: list[float | None] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    hours: list[float] = field(default_factory=list)

    @property
    def points(self) -> list[int]:
        """Where there is something to draw: the places in the lists of the rounds that were evaluated.

        >>> Band("fedavg", 1, mean=[None, 0.5, math.nan]).points
        [1, 2]
        """
        return [place for place, value in enumerate(self.mean) if value is not None]


def bands(histories: Sequence[History], *, partial: bool = False) -> list[Band]:
    """A band for each method, in the order of the histories.

    >>> [(one.name, one.seeds) for one in bands([History("fedavg"), History("smofi"), History("fedavg", seed=1)])]
    [('fedavg', 2), ('smofi', 1)]
    """
    methods = dict.fromkeys(history.name for history in histories)
    return [band([one for one in histories if one.name == name], partial=partial) for name in methods]


def band(seeds: Sequence[History], *, partial: bool = False) -> Band:
    """The band of one method, from the histories of its seeds.

    A round counts if it was evaluated with every seed, since a mean over changing seeds would jump where one of them
    begins or ends. So the band ends with the shortest run, and is not a number once one of them has diverged.
    `partial` takes the seeds that there are instead, for runs that are still going.

    >>> band([History("fedavg", [0.25, 0.5, 0.5]), History("fedavg", [0.75, None], seed=1)]).mean
    [0.5, None]
    >>> band([History("fedavg", [0.25, 0.5]), History("fedavg", [0.75], seed=1)], partial=True).mean
    [0.5, 0.5]
    """
    lengths = [history.rounds for history in seeds]
    rounds = max(lengths) if partial else min(lengths)
    columns = [[one.values[place] for one in seeds if place < one.rounds] for place in range(rounds)]
    low, mean, high = zip(*(_spread(column, partial) for column in columns), strict=True) if columns else ([], [], [])
    return Band(seeds[0].name, len(seeds), list(mean), list(low), list(high), _mean_hours(seeds, rounds))


def _mean_hours(seeds: Sequence[History], rounds: int) -> list[float]:
    """Of each round; nothing if a seed ran without a clock."""
    if not all(history.hours for history in seeds):
        return []
    return [fmean(one.hours[place] for one in seeds if place < len(one.hours)) for place in range(rounds)]


def _spread(values: Sequence[float | None], partial: bool) -> tuple[float | None, float | None, float | None]:
    """mean - deviation, mean, mean + deviation; the deviation is that of a sample, with n - 1."""
    known = [value for value in values if value is not None]
    if not known or (len(known) < len(values) and not partial):
        return None, None, None
    if not all(map(math.isfinite, known)):
        return math.nan, math.nan, math.nan
    mean, deviation = fmean(known), stdev(known) if len(known) > 1 else 0.0
    return mean - deviation, mean, mean + deviation


def mean_curves(histories: Sequence[History]) -> list[History]:
    """The mean of each method's seeds as a history, with the seeds that there are in each round; a single seed's is its
    own.

    >>> [curve.values for curve in mean_curves([History("smofi", [0.25, 0.5]), History("smofi", [0.75], seed=1)])]
    [[0.5, 0.5]]
    """
    curves = []
    for one in bands(histories, partial=True):
        first = next(history for history in histories if history.name == one.name)
        mean = History(one.name, one.mean, hours=one.hours, metrics=first.metrics, chance=first.chance)
        curves.append(first if one.seeds == 1 else mean)
    return curves
