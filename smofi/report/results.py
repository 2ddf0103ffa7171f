"""The model of results: what runs measured round by round, means over seeds, the paper's measures, differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from smofi.engine.events import Record
from smofi.engine.metrics import USUAL, client_values, is_share, value_of
from smofi.errors import InputError, check_number, refuse
from smofi.methods import bare_base
from smofi.report.numbers import four_digits, percent, percent_with_spread

USUAL_BASELINE = "fedavg"

# 0.9 * 0.8 is a hair over 0.72 in binary; a test set would need a billion samples for this to matter.
ROUNDING = 1e-9

# --------------------------------------------------------------------------------------------------------------------
# A run, round by round.


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the numbers among values: None is a round without an evaluation, NaN and infinities are no measurement."""
    return [value for value in values if value is not None and math.isfinite(value)]


@dataclass
class History:
    """The judged metric, as a rule the accuracy, after every round, None where the round was not evaluated; the
    `seconds` each round took; and, with a clock, the virtual time in `hours` at the end of every round. `best` is the
    highest value, None before the first evaluation; `last` that of the latest evaluation, which may not be a number.

    `metrics` says what people call each metric; the first is the judged one. Each further one has a history in
    `others`, and `clients` are the clients' own accuracies at the latest evaluation. A model that knows nothing but the
    most frequent class reaches `chance`."""

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
        """Make the history of a run, from its records or from the lines of its metrics.jsonl."""
        history = cls(name, seed=seed, metrics=metrics, chance=chance)
        for record in records:
            history.add(record)
        return history

    def add(self, record: Record | Mapping[str, Any]) -> None:
        """Add a round; what this costs does not depend on how many there are."""
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
        """Have exactly this many rounds: later ones are forgotten, missing ones were not evaluated."""
        self.values[rounds:] = [None] * (rounds - self.rounds)
        self._look_back()
        for other in self.others:
            other.begin_after(rounds)

    @property
    def rounds(self) -> int:
        return len(self.values)

    @property
    def measured(self) -> list[float]:
        return finite(self.values)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds)

    @property
    def virtual_seconds(self) -> float | None:
        return 3600 * self.hours[-1] if self.hours else None

    def rounds_to(self, target: float) -> int | None:
        """Return the first round, counted from 1, that reaches the target; None if none does."""
        for number, value in enumerate(self.values, start=1):
            if value is not None and value >= target - ROUNDING:
                return number
        return None

    def hours_to(self, target: float) -> float | None:
        """Return when that round ends, in virtual time."""
        number = self.rounds_to(target)
        return self.hours[number - 1] if number and self.hours else None


@dataclass(frozen=True)
class Scale:
    """The name of a metric; the values of a `share` are shown in percent."""

    name: str
    share: bool

    @classmethod
    def of(cls, histories: Sequence[History]) -> Scale:
        """Return the scale of the metric by which these histories are judged, all by the same one. A function's values
        are shares where all of them are between 0 and 1."""
        judged, values = histories[0].judged, (value for history in histories for value in history.measured)
        return cls(histories[0].metrics[judged], is_share(judged) or all(0 <= value <= 1 for value in values))

    @property
    def short(self) -> str:
        return self.name.partition(" (")[0]

    def text(self, value: float | None) -> str:
        """Write a value as people read it."""
        return percent(value) if self.share else four_digits(next(iter(finite([value])), None))

    def with_spread(self, mean: float, deviation: float | None) -> str:
        if self.share or deviation is None:
            return percent_with_spread(mean, deviation) if self.share else self.text(mean)
        return f"{self.text(mean)} ± {self.text(deviation)}"


ACCURACY = Scale("accuracy", share=True)


# --------------------------------------------------------------------------------------------------------------------
# A series: the mean over seeds and its spread, round by round, which every picture of curves shows.

BAND = "The line is the mean over seeds, the band one standard deviation either side of it."
"""Said of bands in captions."""


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
        return [place for place, value in enumerate(self.mean) if value is not None]


def bands(histories: Sequence[History], *, partial: bool = False) -> list[Band]:
    """Make a band for each method, in the order of the histories."""
    methods = dict.fromkeys(history.name for history in histories)
    return [band([one for one in histories if one.name == name], partial=partial) for name in methods]


def band(seeds: Sequence[History], *, partial: bool = False) -> Band:
    """Make the band of one method, from the histories of its seeds.

    A round counts if it was evaluated with every seed, since a mean over changing seeds would jump where one of them
    begins or ends. So the band ends with the shortest run, and is not a number once one of them has diverged.
    `partial` takes the seeds that there are instead, for runs that are still going."""
    lengths = [history.rounds for history in seeds]
    rounds = max(lengths) if partial else min(lengths)
    columns = [[one.values[place] for one in seeds if place < one.rounds] for place in range(rounds)]
    low, mean, high = (
        zip(*(_spread_around(column, partial) for column in columns), strict=True) if columns else ([],) * 3
    )
    hours = []
    if all(history.hours for history in seeds):
        hours = [fmean(one.hours[place] for one in seeds if place < len(one.hours)) for place in range(rounds)]
    return Band(seeds[0].name, len(seeds), list(mean), list(low), list(high), hours)


def _spread_around(values: Sequence[float | None], partial: bool) -> tuple[float | None, float | None, float | None]:
    """Return mean - deviation, mean, mean + deviation; the deviation is that of a sample, with n - 1."""
    known = [value for value in values if value is not None]
    if not known or (len(known) < len(values) and not partial):
        return None, None, None
    if not all(map(math.isfinite, known)):
        return math.nan, math.nan, math.nan
    mean, deviation = fmean(known), stdev(known) if len(known) > 1 else 0.0
    return mean - deviation, mean, mean + deviation


COLUMNS = 200
"""Two dots to a character, in the widest of the live display's curves."""


class Thinned:
    """A run's values for a picture with room for `rounds` rounds: as they are, None for those to come; in a long
    run, the lowest and the highest of each column. Every round is looked at once."""

    def __init__(self, history: History, rounds: int) -> None:
        self.history, self.rounds = history, rounds
        self.columns: list[list[float]] = [[] for _ in range(min(rounds, COLUMNS))]
        self.most = 1 if rounds <= COLUMNS else 2
        self.seen = 0

    def values(self) -> list[float | None]:
        """Return the values of the rounds so far, and a place for each that is to come."""
        for number in range(self.seen, self.history.rounds):
            if (value := self.history.values[number]) is not None:
                column = self.columns[number * len(self.columns) // self.rounds]
                column.append(value)
                if len(column) > self.most:
                    column.remove(median(column))  # of three, it is neither the lowest nor the highest
        self.seen = self.history.rounds
        return [place for column in self.columns for place in [*column, None, None][: self.most]]


# --------------------------------------------------------------------------------------------------------------------
# How far runs have come.

LATEST = 5  # rounds that say how long the next ones will take
RECENT = 200  # rounds among which they are looked for


@dataclass
class RunProgress:
    """A run's history so far and the rounds it will have; `in_round` is the done share of the current round, which has
    `ticks` ticks. The history of a resumed run has the seconds of the rounds since then alone."""

    history: History
    rounds: int
    in_round: float = 0.0
    state: str = "waiting"
    ticks: int = 1

    @property
    def done(self) -> float:
        return min(1.0, (self.history.rounds + self.in_round) / max(1, self.rounds))

    @property
    def seconds_per_round(self) -> float | None:
        """Seconds of the latest rounds, with an evaluation and without one, each as often as they were."""
        seconds, values = self.history.seconds, self.history.values
        latest = zip(reversed(seconds[-RECENT:]), reversed(values[-RECENT:]), strict=False)
        kinds: dict[bool, list[float]] = {}
        for taken, value in latest:
            kinds.setdefault(value is None, []).append(taken)
        total = sum(len(kind) * median(kind[:LATEST]) for kind in kinds.values())
        return total / sum(map(len, kinds.values())) if kinds else None

    @property
    def seconds_left(self) -> float | None:
        pace = self.seconds_per_round
        return None if pace is None else pace * max(0.0, self.rounds - self.history.rounds - self.in_round)


def seconds_left_in_all(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until the last of several runs ends; one that has not started will take as long as others."""
    known = [pace for run in runs if (pace := run.seconds_per_round) is not None]
    ahead = [
        left if (left := run.seconds_left) is not None else (run.rounds - run.history.rounds) * fmean(known)
        for run in runs
        if known and run.state in ("running", "waiting")
    ]
    return sum(ahead) if ahead else None


# --------------------------------------------------------------------------------------------------------------------
# The measures the paper reports: accuracy, rounds and hours to a target, and the speed-up those rounds amount to.


@dataclass(frozen=True)
class Row:
    """A method, averaged over its seeds. `rounds`, `hours_to` and `speed_up` are None when any seed misses the
    target; `hours`, of virtual time in all, is None without a clock. `base` is what the speed-up is measured against,
    None if that was not run. A single seed has no standard deviations. `metric` is the one that is judged, `others` has
    the best of each further one, and `target_is` says in words what the target is, if it was not given."""

    name: str
    seeds: int
    best: float
    best_std: float | None
    mean: float
    target: float
    rounds: float | None
    budget: int
    speed_up: float | None
    seconds: float
    hours_to: float | None = None
    hours: float | None = None
    base: str | None = None
    mean_std: float | None = None
    rounds_std: float | None = None
    rounds_by_seed: tuple[int | None, ...] = ()
    hours_to_std: float | None = None
    metric: Scale = ACCURACY
    others: Mapping[Scale, float | None] = field(default_factory=dict)
    target_is: str = ""


def compare(histories: Sequence[History]) -> list[Row]:
    """Measure runs that may have diverged or been interrupted: those without any value are left out, and so are seeds
    that not all methods have, as long as there are others.

    The baseline is FedAvg, or the first run if FedAvg is not among them. There is no speed-up where it would say
    nothing: of a single method, or if the target is no better than chance, or if all reach it when first evaluated."""
    measured = [history for history in histories if history.measured]
    if not measured:
        return []
    seeds: dict[str, set[int]] = {}
    for history in measured:
        seeds.setdefault(history.name, set()).add(history.seed)
    baseline = USUAL_BASELINE if USUAL_BASELINE in seeds else measured[0].name
    shared = set.intersection(*seeds.values()) or seeds[baseline]
    measured = [history for history in measured if history.seed in shared]
    rows = measure(measured, baseline)
    target, chance = rows[0].target, measured[0].chance
    at_once = all(history.rounds_to(target) == history.rounds_to(-math.inf) for history in measured)
    telling = len(rows) > 1 and not at_once and (chance is None or target > chance)
    return rows if telling else [replace(row, speed_up=None) for row in rows]


def measure(
    histories: Sequence[History], baseline: str = USUAL_BASELINE, *, share: float = 0.9, target: float | None = None
) -> list[Row]:
    """Return one row per method, in the order given.

    The target is `share` of the baseline's best value with the same seed, or the fixed `target`. The speed-up is
    against the bare base, which for fedprox+smofi is fedprox, over the seeds that both have:
    R up = R(base) / R(method)"""
    check_number("share", share, above=0, high=1)
    by_method = _by_method(histories)
    if target is None and baseline not in by_method:
        refuse("baseline", baseline, "one of the runs: " + ", ".join(by_method))

    def target_of(history: History) -> float:
        if target is not None:
            return target
        if history.seed not in by_method[baseline]:
            raise InputError(
                f"{history.name} ran with seed {history.seed}, {baseline} did not: expected the same seeds"
            )
        best = max(by_method[baseline][history.seed].measured)
        return best * (share if best >= 0 else 2 - share)  # a value below 0 is the better the closer it is to it

    rounds = {
        name: {seed: history.rounds_to(target_of(history)) for seed, history in seeds.items()}
        for name, seeds in by_method.items()
    }
    scales = [Scale.of(same) for same in zip(*(history.others for history in histories), strict=True)]

    def row(name: str) -> Row:
        seeds = list(by_method[name].values())
        best = [max(history.measured) for history in seeds]
        means = [fmean(history.measured) for history in seeds]
        hours_to = [history.hours_to(target_of(history)) for history in seeds]
        bare = bare_base(name)
        if bare == USUAL_BASELINE and bare not in by_method:
            bare = baseline  # which stands in for a missing FedAvg
        base = bare if bare in by_method else None
        others = zip(*([other.best for other in history.others] for history in seeds), strict=True)
        return Row(
            name=name,
            seeds=len(seeds),
            best=fmean(best),
            best_std=_deviation(best),
            mean=fmean(means),
            mean_std=_deviation(means),
            target=fmean(target_of(history) for history in seeds),
            rounds=_mean_of_all(rounds[name].values()),
            rounds_std=_deviation(rounds[name].values()),
            rounds_by_seed=tuple(rounds[name].values()),
            budget=max(history.rounds for history in seeds),
            base=base,
            speed_up=_speed_up(rounds[name], rounds[base]) if base else None,
            seconds=fmean(history.total_seconds for history in seeds),
            hours_to=_mean_of_all(hours_to),
            hours_to_std=_deviation(hours_to),
            hours=_mean_of_all([history.hours[-1] if history.hours else None for history in seeds]),
            metric=Scale.of(histories),
            others={scale: _mean_of_all(bests) for scale, bests in zip(scales, others, strict=True)},
            target_is="" if target is not None else f"{share:.0%} of {baseline}'s best",
        )

    return [row(name) for name in by_method]


def alike(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with as many seeds and rounds as most others, which alone can be ranked."""
    extents = [(row.seeds, row.budget) for row in rows]
    usual = max(extents, key=lambda extent: (extents.count(extent), extent), default=None)
    return [row for row, extent in zip(rows, extents, strict=True) if extent == usual]


def _by_method(histories: Sequence[History]) -> dict[str, dict[int, History]]:
    found: dict[str, dict[int, History]] = {}
    for history in histories:
        name, seed = history.name, history.seed
        if not history.measured:
            refuse(f"values of {name}", history.values, "at least one round with a number")
        if seed in found.setdefault(name, {}):
            raise InputError(f"two runs are called {name} with seed {seed}: expected each pair once")
        found[name][seed] = history
    return found


def _speed_up(method: Mapping[int, int | None], base: Mapping[int, int | None]) -> float | None:
    """Return R(base) / R(method) over the seeds that both have; None if there is none, or if any misses the target."""
    both = method.keys() & base.keys()
    own, others = (_mean_of_all([one[seed] for seed in both]) if both else None for one in (method, base))
    return others / own if others and own else None


def _deviation(values: Collection[float | None]) -> float | None:
    """Return the standard deviation over seeds; None of a single one, or if any is missing."""
    known = [value for value in values if value is not None]
    return stdev(known) if len(known) == len(values) > 1 else None


def _mean_of_all(values: Collection[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


# --------------------------------------------------------------------------------------------------------------------
# Differences between a method and its base, seed by seed: the same seed gives both the same partition, model and
# selection, so that what they share cancels out.

LEVEL = 0.95
HOW = (
    "d ± t s / √n over the n seeds that both have, where d is the mean of the differences, s their standard deviation "
    "and t Student's for n - 1 degrees of freedom"
)


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
    """Compare a method with its base, from the histories of their seeds; None if they share no seed."""
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
    """Return the mean of differences and the interval that has it in 95 of 100 cases, were they drawn from a normal
    distribution:   d ± t(0.975, n - 1) s / sqrt(n)"""
    mean, count = fmean(differences), len(differences)
    if count == 1:
        return Difference(mean)
    half = student_t(count - 1) * stdev(differences) / math.sqrt(count)
    return Difference(mean, mean - half, mean + half)


def student_t(degrees: int) -> float:
    """Return how many standard errors a 95% interval reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LEVEL) / 2))
