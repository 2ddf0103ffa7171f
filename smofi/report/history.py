"""What a run has measured, round by round: the one shape that tables, curves and displays read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from smofi.engine.events import Record
from smofi.engine.metrics import USUAL, client_values, is_share, value_of
from smofi.report.numbers import four_digits, percent, percent_with_spread

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
    """The judged metric, as a rule the accuracy, after every round, None where the round was not evaluated; the
    `seconds` each round took; and, with a clock, the virtual time in `hours` at the end of every round. `best` is the
    highest value, None before the first evaluation; `last` that of the latest evaluation, which may not be a number.

    `metrics` says what people call each metric; the first is the judged one. Each further one has a history in
    `others`, and `clients` are the clients' own accuracies at the latest evaluation. A model that knows nothing but the
    most frequent class reaches `chance`.

    >>> history = History("fedavg", [0.5, None, 0.8], seconds=[1.0, 1.0, 1.5])
    >>> history.best, history.last, history.total_seconds, history.rounds
    (0.8, 0.8, 3.5, 3)
    """

    name: str
    values: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    hours: list[float] = field(default_factory=list)
    seed: int = 0
    metrics: Mapping[str, str] = field(default_factory=USUAL.copy)
    chance: float | None = None
    others: list[History] = field(init=False, repr=False, compare=False)
    clients: dict[str, float | None] = field(init=False, repr=False, compare=False)
    best: float | None = field(init=False, repr=False, compare=False)
    last: float | None = field(init=False, repr=False, compare=False)
    judged: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.clients = {}
        self.judge_by(self.metrics)
        self._look_back()

    def judge_by(self, metrics: Mapping[str, str]) -> None:
        """Have these metrics from now on, the first one judged."""
        self.metrics = metrics
        self.judged, *others = metrics
        self.others = [History(self.name, metrics={one: metrics[one]}) for one in others if one != "per_client"]

    def _look_back(self) -> None:
        self.best = max(self.measured, default=None)
        self.last = next((value for value in reversed(self.values) if value is not None), None)

    @classmethod
    def of(
        cls,
        name: str,
        records: Iterable[Record | Mapping[str, Any]],
        seed: int = 0,
        metrics: Mapping[str, str] = USUAL,
        chance: float | None = None,
    ) -> History:
        """The history of a run, from its records or from the lines of its metrics.jsonl.

        >>> history = History.of("fedavg", [{"accuracy": 0.5, "seconds": 2.0, "virtual_end": 1800.0}])
        >>> history.values, history.seconds, history.hours
        ([0.5], [2.0], [0.5])
        """
        history = cls(name, seed=seed, metrics=metrics, chance=chance)
        for record in records:
            history.add(record)
        return history

    def add(self, record: Record | Mapping[str, Any]) -> None:
        """One more round."""
        fields = vars(record) if isinstance(record, Record) else record
        self.values.append(value := value_of(fields, self.judged))
        if value is not None:
            self.last = value
            self.best = max(finite([self.best, value]), default=None)
        for other in self.others:
            other.add(record)
        self.clients = client_values((fields.get("metrics") or {}).get("per_client")) or self.clients
        if (seconds := fields.get("seconds")) is not None:
            self.seconds.append(seconds)
        if (end := fields.get("virtual_end")) is not None:
            self.hours.append(end / 3600)

    def begin_after(self, rounds: int) -> None:
        """Have exactly this many rounds: later ones are forgotten, missing ones were not evaluated.

        >>> history = History("fedavg", [0.5, 0.7])
        >>> history.begin_after(1)
        >>> history.values, history.best
        ([0.5], 0.5)
        """
        self.values[rounds:] = [None] * (rounds - self.rounds)
        self._look_back()
        for other in self.others:
            other.begin_after(rounds)

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return len(self.values)

    @property
    def measured(self) -> list[float]:
        """The values that are numbers."""
        return finite(self.values)

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
        for number, value in enumerate(self.values, start=1):
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


@dataclass(frozen=True)
class Scale:
    """What a metric is called, and whether its values are shares, which are shown in percent."""

    name: str
    share: bool

    @classmethod
    def of(cls, histories: Sequence[History]) -> Scale:
        """That of the metric by which these histories are judged, all by the same one. A function's values are shares
        where all of them are between 0 and 1.

        >>> Scale.of([History("fedavg", [-0.5, 2.0], metrics={"gain": "gain"})])
        Scale(name='gain', share=False)
        """
        judged, values = histories[0].judged, (value for history in histories for value in history.measured)
        return cls(histories[0].metrics[judged], is_share(judged) or all(0 <= value <= 1 for value in values))

    @property
    def short(self) -> str:
        """Its name without what is in brackets."""
        return self.name.partition(" (")[0]

    def text(self, value: float | None) -> str:
        """A value as people read it.

        >>> Scale("accuracy", share=True).text(0.8123), Scale("gain", share=False).text(-12.3456)
        ('81.2%', '-12.35')
        """
        return percent(value) if self.share else four_digits(next(iter(finite([value])), None))

    def with_spread(self, mean: float, deviation: float | None) -> str:
        """A mean and its standard deviation, which a single value does not have."""
        if self.share or deviation is None:
            return percent_with_spread(mean, deviation) if self.share else self.text(mean)
        return f"{self.text(mean)} ± {self.text(deviation)}"


ACCURACY = Scale("accuracy", share=True)


# --------------------------------------------------------------------------------------------------------------------
# The mean over seeds and its spread, round by round: what every curve of several seeds shows.

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
