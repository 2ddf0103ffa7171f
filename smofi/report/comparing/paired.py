"""Differences between a method and its base, seed by seed: the same seed gives both the same partition, model and
selection, so that what they share cancels out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from smofi.report.history import History

LEVEL = 0.95
HOW = (
    "d ± t s / √n over the n seeds that both have, where d is the mean of the differences, s their standard deviation "
    "and t Student's for n - 1 degrees of freedom"
)
WIDE = 3  # seeds, up to which an interval says little


class Difference(NamedTuple):
    """The mean of a difference over seeds and its interval, which a single seed does not have."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Paired:
    """A method against its base: the seeds that both have, and how much higher its mean over rounds and its best
    are."""

    base: str
    seeds: tuple[int, ...]
    mean: Difference
    best: Difference


def paired(method: Sequence[History], base: Sequence[History]) -> Paired | None:
    """The differences of a method to its base, from the histories of their seeds; None if they share no seed.

    >>> fedavg, smofi = ([History("", [value + seed / 10], seed=seed) for seed in (0, 1)] for value in (0.25, 0.5))
    >>> difference = paired(smofi, fedavg).best
    >>> round(difference.mean, 6), round(difference.high - difference.low, 6)
    (0.25, 0.0)
    """
    others = {history.seed: history for history in base}
    pairs = [(one, others[one.seed]) for one in sorted(method, key=lambda one: one.seed) if one.seed in others]
    if not pairs:
        return None

    def over_seeds(value: Callable[[History], float]) -> Difference:
        return interval([value(one) - value(other) for one, other in pairs])

    return Paired(
        base=base[0].name,
        seeds=tuple(one.seed for one, _ in pairs),
        mean=over_seeds(lambda history: fmean(history.measured)),
        best=over_seeds(lambda history: max(history.measured)),
    )


def interval(differences: Sequence[float]) -> Difference:
    """The mean of differences and the interval that has it in 95 of 100 cases, were they drawn from a normal
    distribution:   d ± t(0.975, n - 1) s / sqrt(n)

    >>> [round(value, 3) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    mean, count = fmean(differences), len(differences)
    if count == 1:
        return Difference(mean)
    half = student_t(count - 1) * stdev(differences) / sqrt(count)
    return Difference(mean, mean - half, mean + half)


def student_t(degrees: int, level: float = LEVEL) -> float:
    """How many standard errors an interval of this level reaches to either side.

    >>> round(student_t(2), 3), round(student_t(9), 3)
    (4.303, 2.262)
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def how_sure(counts: Sequence[int]) -> str:
    """What to make of intervals over this many seeds.

    >>> how_sure([1]), how_sure([3, 5])
    ('One seed has no interval.', 'With 3 seeds the interval is wide: t is 4.3, and 2.0 with many.')
    """
    fewest = min(counts)
    if fewest == 1:
        return "One seed has no interval."
    if fewest <= WIDE:
        return f"With {fewest} seeds the interval is wide: t is {student_t(fewest - 1):.1f}, and 2.0 with many."
    return ""
