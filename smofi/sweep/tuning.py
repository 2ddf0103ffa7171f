"""Which values are best: by the accuracy on validation data alone. The test data has no say, and is not looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from smofi.config import Config
from smofi.errors import refuse
from smofi.runs import RunFolder
from smofi.sweep.grids import Parameter, Variant
from smofi.sweep.running import DIVERGED, FINISHED, Outcome

SHARE = 0.1
"""Of the training data, held out for validation."""


@dataclass(frozen=True)
class Trial:
    """A variant over its seeds, those that are finished: the best validation value of each, and the mean of its rounds.
    `missing` says why some seed has none; such a variant is not chosen."""

    variant: Variant
    best: tuple[float, ...]
    means: tuple[float, ...]
    missing: str = ""

    @property
    def mean(self) -> float:
        """The mean over seeds, by which variants are compared; minus infinity without any."""
        return fmean(self.best) if self.best else -math.inf

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, which a single one does not have."""
        return stdev(self.best) if len(self.best) > 1 else None


def tried(variants: Sequence[Variant], outcomes: Sequence[Outcome]) -> list[Trial]:
    """A trial for each variant, from the runs of its cells."""
    return [_trial(one, [outcome for outcome in outcomes if outcome.cell.method == one.method]) for one in variants]


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the highest mean over seeds, among equals that with the highest mean over rounds; None if no
    variant has all its seeds."""
    whole = [trial for trial in trials if not trial.missing and trial.best]
    return max(whole, key=lambda trial: (trial.mean, fmean(trial.means)), default=None)


def within_spread(best: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """The others that are no further from the best than its standard deviation over seeds."""
    close = [trial for trial in trials if trial is not best and not trial.missing and trial.best]
    return [trial for trial in close if best.spread is not None and best.mean - trial.mean <= best.spread]


def at_the_edge(best: Trial, trials: Sequence[Trial]) -> dict[Parameter, str]:
    """The parameters of which the best trial has the smallest or the largest value of at least three: a better one may
    lie beyond."""
    found = {}
    for parameter, value in best.variant.values.items():
        tried_values = {trial.variant.values[parameter] for trial in trials}
        if len(tried_values) > 2 and value in (least := min(tried_values), max(tried_values)):
            found[parameter] = "smallest" if value == least else "largest"
    return found


def held_out(given: Mapping[str, object], config: Config) -> float:
    """The share of the training data to hold out: as it is set, or a tenth. Refused if it is set to nothing."""
    if "validation" in given and not config.validation:
        refuse("validation", 0, "more than 0, since values are chosen on validation data")
    return config.validation or SHARE


def _trial(variant: Variant, outcomes: Sequence[Outcome]) -> Trial:
    best, means, missing = [], [], ""
    for outcome in outcomes:
        values = _validation(outcome) if outcome.state == FINISHED else []
        if values:
            best.append(max(values))
            means.append(fmean(values))
        elif outcome.state == FINISHED:
            missing = missing or "no validation data"
        else:
            missing = DIVERGED if DIVERGED in (outcome.state, missing) else outcome.state
    return Trial(variant, tuple(best), tuple(means), missing)


def _validation(outcome: Outcome) -> list[float]:
    """The judged metric on the validation data, after each round that was evaluated."""
    assert outcome.folder
    values = [record.get("validation") for record in RunFolder(outcome.folder).records()]
    return [float(value) for value in values if value is not None and math.isfinite(value)]
