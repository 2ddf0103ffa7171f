"""The numbers that bars and points show: one per method and panel, with the spread over its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smofi.errors import check_choice, refuse
from smofi.report.figures.panels import Panel
from smofi.report.history import Scale
from smofi.report.measures import Row
from smofi.report.style import INK

ERROR_BAR: dict[str, Any] = {"ecolor": INK, "elinewidth": 0.7, "capsize": 1.5, "capthick": 0.7}


@dataclass(frozen=True)
class Number:
    """A value and its standard deviation, 0 of a single seed. A target that was missed is `missed`: the value is then
    the budget, which was not enough."""

    value: float
    deviation: float
    missed: bool = False


@dataclass(frozen=True)
class Value:
    """What is shown of a row, and what the axis is called."""

    label: Callable[[Scale], str]
    of: Callable[[Row], float | None]
    deviation: Callable[[Row], float | None]
    budget: Callable[[Row], float | None] = lambda row: None
    metric: bool = False  # in the unit of the judged metric

    def number(self, row: Row) -> Number | None:
        """Of a method; None if it was not measured, as hours without a clock."""
        value, budget = self.of(row), self.budget(row)
        if value is None:
            return None if budget is None or math.isinf(row.target) else Number(budget, 0.0, missed=True)
        return Number(value, self.deviation(row) or 0.0)


VALUES = {
    "accuracy": Value(lambda scale: f"best {scale.short}", lambda r: r.best, lambda r: r.best_std, metric=True),
    "mean": Value(lambda scale: f"mean {scale.short}", lambda r: r.mean, lambda r: r.mean_std, metric=True),
    "rounds": Value(
        lambda scale: "rounds to target", lambda r: r.rounds, lambda r: r.rounds_std, lambda r: float(r.budget)
    ),
    "hours": Value(lambda scale: "hours to target", lambda r: r.hours_to, lambda r: r.hours_to_std, lambda r: r.hours),
}


def seeds_words(counts: Iterable[int]) -> str:
    """What a band or an error bar shows, given the number of seeds of each method; nothing of single seeds.

    >>> seeds_words([3, 2]), seeds_words([1])
    ('± std, 2 to 3 seeds', '')
    """
    found = sorted(set(counts))
    if not found or found[-1] == 1:
        return ""
    return f"± std, {found[0]} seeds" if len(found) == 1 else f"± std, {found[0]} to {found[-1]} seeds"


def check_values(values: Sequence[str], panels: Sequence[Panel]) -> list[Value]:
    """The values by their names; hours only of runs with a clock, rounds and hours only if there is a target."""
    found = [VALUES[check_choice("value", name, VALUES)] for name in values]
    if "hours" in values and not any(history.hours for panel in panels for history in panel.histories):
        refuse("value", "hours", "runs with a clock, for example: smofi run --clock paper")
    for name, value in zip(values, found, strict=True):
        if not any(value.number(row) for panel in panels for row in panel.rows):
            refuse(
                "value", name, f"runs of {panels[0].baseline} too, from which the target is taken, or a fixed target"
            )
    return found


def spread_words(panels: Sequence[Panel]) -> str:
    """What the error bars are; empty if no method has several seeds.

    >>> from smofi.report.history import History
    >>> spread_words([Panel("", [History("fedavg", [0.5], seed=seed) for seed in (0, 1)])])
    '± std, 2 seeds'
    """
    return seeds_words([row.seeds for panel in panels for row in panel.rows])


def error_sample(words: str) -> list[Any]:
    """A sample of an error bar for the legend, if there are any."""
    from matplotlib.lines import Line2D

    sample: dict[str, Any] = {"color": INK, "marker": "|", "markersize": 5, "markeredgewidth": 0.8, "linestyle": "none"}
    return [Line2D([], [], label=words, **sample)] if words else []
