"""When to stop early: a function of the history alone, so that a resumed run decides as if it had never stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smofi.engine.events import Record


@dataclass(frozen=True)
class Stopping:
    """Stop at a target accuracy (on the validation split if there is one, else on the test data), or after `patience`
    rounds without a better validation accuracy; either only after a round that was evaluated."""

    patience: int | None = None
    target_accuracy: float | None = None

    def reason(self, history: Sequence[Record]) -> str | None:
        """Why the run should stop after these rounds, None if it should go on.

        >>> Stopping(patience=2).reason([])
        """
        if not history:
            return None
        latest = history[-1]
        reached = latest.accuracy if latest.validation is None else latest.validation
        if self.target_accuracy is not None and reached is not None and reached >= self.target_accuracy:
            return f"reached the target accuracy {self.target_accuracy:g} with {reached:.4f} in round {latest.round}"
        best = best_round(history)
        if self.patience is None or best is None or latest.validation is None:
            return None
        if (since := latest.round - best) >= self.patience:
            return f"no better validation accuracy for {since} rounds, the best was in round {best}"
        return None


def best_round(history: Sequence[Record]) -> int | None:
    """The first round with the best validation accuracy."""
    validated = [(record.validation, -record.round) for record in history if record.validation is not None]
    return -max(validated)[1] if validated else None
