"""When to stop early: a function of the history alone, so that a resumed run decides as if it had never stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smofi.engine.events import Record
from smofi.engine.metrics import USUAL, headings
from smofi.plural import plural

NONE_YET = (-math.inf, 0)
"""The rank of no round."""


@dataclass(frozen=True)
class Stopping:
    """Stop when the judged metric, as a rule the accuracy, reaches a target (on the validation split if there is one,
    else on the test data), or after `patience` rounds in which it was not better on the validation split; either only
    after a round that was evaluated. `judged` and `validated` are the metrics, `headings` what people call them."""

    patience: int | None = None
    target_accuracy: float | None = None
    judged: str = "top1"
    validated: str = "top1"
    headings: Mapping[str, str] = field(default_factory=USUAL.copy)

    def reason(self, history: Sequence[Record], best: BestRound | None = None) -> str | None:
        """Why the run should stop after these rounds, None if it should go on. `best` has followed them so far.

        >>> Stopping(patience=2).reason([])
        """
        if not history:
            return None
        latest = history[-1]
        held_out = latest.validation is not None
        reached, metric = (latest.validation, self.validated) if held_out else (latest.value(self.judged), self.judged)
        if self.target_accuracy is not None and reached is not None and reached >= self.target_accuracy:
            what = f"the target {self._called(metric)} {self.target_accuracy:g}"
            return f"reached {what} with {reached:.4f} in round {latest.round}"
        number = (best or BestRound()).of(history)
        if self.patience is None or number is None or latest.validation is None:
            return None
        if (since := latest.round - number) >= self.patience:
            what = f"no better validation {self._called(self.validated)}"
            return f"{what} for {plural(since, 'round')}, the best was in round {number}"
        return None

    def _called(self, metric: str) -> str:
        return self.headings.get(metric) or headings([metric])[metric]


class BestRound:
    """The first round that is best on the validation split, of a history that grows: it looks at every round once, but
    for the latest, which may still be evaluated, or no longer count as evaluated."""

    def __init__(self) -> None:
        self.history: Sequence[Record] = ()
        self.seen, self.best = 0, NONE_YET

    def of(self, history: Sequence[Record]) -> int | None:
        """Its number, None if no round was validated.

        >>> BestRound().of([])
        """
        if history is not self.history:
            self.history, self.seen, self.best = history, 0, NONE_YET
        for record in history[self.seen : -1]:
            self.best = max(self.best, _rank(record))
        self.seen = max(self.seen, len(history) - 1)
        value, number = max([self.best, *map(_rank, history[-1:])])
        return -number if value > -math.inf else None


def _rank(record: Record) -> tuple[float, int]:
    """The higher the better; of equal values, that of the earlier round."""
    return -math.inf if record.validation is None else record.validation, -record.round
