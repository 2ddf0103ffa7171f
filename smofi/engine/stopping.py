"""When to stop early: a function of the history alone, so that a resumed run decides as if it had never stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from smofi.engine.events import Record

NONE_YET = (-math.inf, 0)
"""The rank of no round."""


@dataclass(frozen=True)
class Stopping:
    """Stop at a target accuracy (on the validation split if there is one, else on the test data), or after `patience`
    rounds without a better validation accuracy; either only after a round that was evaluated."""

    patience: int | None = None
    target_accuracy: float | None = None

    def reason(self, history: Sequence[Record], best: BestRound | None = None) -> str | None:
        """Why the run should stop after these rounds, None if it should go on. `best` has followed them so far.

        >>> Stopping(patience=2).reason([])
        """
        if not history:
            return None
        latest = history[-1]
        reached = latest.accuracy if latest.validation is None else latest.validation
        if self.target_accuracy is not None and reached is not None and reached >= self.target_accuracy:
            return f"reached the target accuracy {self.target_accuracy:g} with {reached:.4f} in round {latest.round}"
        number = (best or BestRound()).of(history)
        if self.patience is None or number is None or latest.validation is None:
            return None
        if (since := latest.round - number) >= self.patience:
            return f"no better validation accuracy for {since} rounds, the best was in round {number}"
        return None


class BestRound:
    """The first round with the best validation accuracy, of a history that grows: it looks at every round once, but for
    the latest, which may still be evaluated, or no longer count as evaluated."""

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
        accuracy, number = max([self.best, *map(_rank, history[-1:])])
        return -number if accuracy > -math.inf else None


def _rank(record: Record) -> tuple[float, int]:
    """The higher the better; of equal accuracies, that of the earlier round."""
    return -math.inf if record.validation is None else record.validation, -record.round
