"""What a run has measured, round by round: the one shape that tables, curves and displays read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smofi.engine.events import Record

# 0.9 * 0.8 is a hair over 0.72 in binary; a test set would need a billion samples for this to matter.
ROUNDING = 1e-9


def finite(values: Iterable[float | None]) -> list[float]:
    """The numbers among values: None is a round without an evaluation, NaN and infinities are no measurement.

    >>> finite([0.5, None, float("nan"), 1.0])
    [0.5, 1.0]
    """
    return [value for value in values if value is not None and math.isfinite(value)]


@dataclass
class History:
    """A run's accuracy after every round, as fractions, None where the round was not evaluated; the `seconds` each
    round took; and, with a clock, the virtual time in `hours` at the end of every round. `best` is the highest
    accuracy, None before the first evaluation; `last` that of the latest evaluation, which may not be a number.

    >>> history = History("fedavg", [0.5, None, 0.8], seconds=[1.0, 1.0, 1.5])
    >>> history.best, history.last, history.total_seconds, history.rounds
    (0.8, 0.8, 3.5, 3)
    """

    name: str
    accuracies: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    hours: list[float] = field(default_factory=list)
    seed: int = 0
    best: float | None = field(init=False, repr=False, compare=False)
    last: float | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._look_back()

    def _look_back(self) -> None:
        self.best = max(self.measured, default=None)
        self.last = next((value for value in reversed(self.accuracies) if value is not None), None)

    @classmethod
    def of(cls, name: str, records: Iterable[Record | Mapping[str, Any]], seed: int = 0) -> History:
        """The history of a run, from its records or from the lines of its metrics.jsonl.

        >>> History.of("fedavg", [{"accuracy": 0.5, "seconds": 2.0, "virtual_end": 1800.0}])
        History(name='fedavg', accuracies=[0.5], seconds=[2.0], hours=[0.5], seed=0)
        """
        history = cls(name, seed=seed)
        for record in records:
            history.add(record)
        return history

    def add(self, record: Record | Mapping[str, Any]) -> None:
        """One more round."""
        fields = vars(record) if isinstance(record, Record) else record
        self.accuracies.append(accuracy := fields.get("accuracy"))
        if accuracy is not None:
            self.last = accuracy
            self.best = max(finite([self.best, accuracy]), default=None)
        if (seconds := fields.get("seconds")) is not None:
            self.seconds.append(seconds)
        if (end := fields.get("virtual_end")) is not None:
            self.hours.append(end / 3600)

    def begin_after(self, rounds: int) -> None:
        """Have exactly this many rounds: later ones are forgotten, missing ones were not evaluated.

        >>> history = History("fedavg", [0.5, 0.7])
        >>> history.begin_after(1)
        >>> history.accuracies, history.best
        ([0.5], 0.5)
        """
        self.accuracies[rounds:] = [None] * (rounds - self.rounds)
        self._look_back()

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return len(self.accuracies)

    @property
    def measured(self) -> list[float]:
        """The accuracies that are numbers."""
        return finite(self.accuracies)

    @property
    def total_seconds(self) -> float:
        """What all rounds took together."""
        return sum(self.seconds)

    @property
    def virtual_seconds(self) -> float | None:
        """The virtual time after the last round; None without a clock."""
        return 3600 * self.hours[-1] if self.hours else None

    def rounds_to(self, target: float) -> int | None:
        """The first round, counted from 1, that reaches the target; None if none does."""
        for number, value in enumerate(self.accuracies, start=1):
            if value is not None and value >= target - ROUNDING:
                return number
        return None

    def hours_to(self, target: float) -> float | None:
        """When that round ends, in virtual time.

        >>> History("fedavg", [0.5, 0.8], hours=[1.5, 3.0]).hours_to(0.8)
        3.0
        """
        number = self.rounds_to(target)
        return self.hours[number - 1] if number and self.hours else None
