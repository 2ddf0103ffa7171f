"""The measures the paper reports: accuracy, rounds and hours to a target, and the speed-up those rounds amount to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rich.table import Table

from smofi.errors import InputError, check_number, refuse
from smofi.report.progress import three_digits, time_unit

# 0.9 * 0.8 is a hair over 0.72 in binary; a test set would need a billion samples for this to matter.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Run:
    """One finished run: its accuracy after every round, as fractions. None and NaN are rounds without a result. With a
    clock, `hours` has the virtual time at the end of every round.

    >>> Run("fedavg", [0.5, 0.8], seconds=3.0).best
    0.8
    """

    name: str
    accuracies: Sequence[float | None]
    seconds: float = 0.0
    seed: int = 0
    hours: Sequence[float] = ()

    @property
    def measured(self) -> list[float]:
        return [value for value in self.accuracies if value is not None and math.isfinite(value)]

    @property
    def best(self) -> float:
        return max(self.measured)

    def rounds_to(self, target: float) -> int | None:
        """The first round, counted from 1, that reaches the target; None when none does."""
        for number, value in enumerate(self.accuracies, start=1):
            if value is not None and value >= target - ROUNDING:
                return number
        return None

    def hours_to(self, target: float) -> float | None:
        """When that round ends, in virtual time.

        >>> Run("fedavg", [0.5, 0.8], hours=[1.5, 3.0]).hours_to(0.8)
        3.0
        """
        number = self.rounds_to(target)
        return self.hours[number - 1] if number and self.hours else None


@dataclass(frozen=True)
class Row:
    """One method, averaged over its seeds. `rounds`, `hours_to` and `speed_up` are None when any seed misses the
    target; `hours`, of virtual time in all, is None without a clock."""

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


def measure(
    runs: Sequence[Run],
    baseline: str = "fedavg",
    *,
    share: float = 0.9,
    target: float | None = None,
    bases: Mapping[str, str] | None = None,
) -> list[Row]:
    """One row per method, in the order given.

    The target is `share` of the baseline's best accuracy with the same seed, or the fixed `target`. The speed-up is
    R(base) / R(method); a method's base is the baseline, unless `bases` names another ("fedprox+smofi": "fedprox").

    >>> measure([Run("fedavg", [0.2, 0.6, 0.8]), Run("smofi", [0.75, 0.8, 0.8])])[1].speed_up
    3.0
    """
    check_number("share", share, above=0, high=1)
    by_method: dict[str, dict[int, Run]] = {}
    for run in runs:
        if not run.measured:
            refuse(f"accuracies of {run.name}", list(run.accuracies), "at least one round with an accuracy")
        if run.seed in by_method.setdefault(run.name, {}):
            raise InputError(f"two runs are called {run.name} with seed {run.seed}: expected each pair once")
        by_method[run.name][run.seed] = run
    bases = dict(bases or {})
    for wanted in [*([baseline] if target is None else []), *bases.values()]:
        if wanted not in by_method:
            refuse("baseline", wanted, "one of the runs: " + ", ".join(by_method))

    def target_of(run: Run) -> float:
        if target is not None:
            return target
        if run.seed not in by_method[baseline]:
            raise InputError(f"{run.name} ran with seed {run.seed}, {baseline} did not: expected the same seeds")
        return share * by_method[baseline][run.seed].best

    def rounds_of(name: str) -> float | None:
        return _mean_of_all([run.rounds_to(target_of(run)) for run in by_method[name].values()])

    def row(name: str) -> Row:
        group = list(by_method[name].values())
        best = [run.best for run in group]
        rounds = rounds_of(name)
        base = bases.get(name, baseline)
        base_rounds = rounds_of(base) if base in by_method else None
        return Row(
            name=name,
            seeds=len(group),
            best=fmean(best),
            best_std=stdev(best) if len(best) > 1 else None,
            mean=fmean(fmean(run.measured) for run in group),
            target=fmean(target_of(run) for run in group),
            rounds=rounds,
            budget=max(len(run.accuracies) for run in group),
            speed_up=base_rounds / rounds if base_rounds and rounds else None,
            seconds=fmean(run.seconds for run in group),
            hours_to=_mean_of_all([run.hours_to(target_of(run)) for run in group]),
            hours=_mean_of_all([run.hours[-1] if run.hours else None for run in group]),
        )

    return [row(name) for name in by_method]


def table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """The rows for the terminal; the best accuracy, the best mean and the fewest rounds and hours are bold.

    >>> table(measure([Run("fedavg", [0.5, 0.8])])).row_count
    1
    """
    several = any(row.seeds > 1 for row in rows)
    hours = max((row.hours for row in rows if row.hours is not None), default=None)
    unit, in_an_hour = time_unit(hours or 0.0)
    target = f"{100 * rows[0].target:.1f}%" if len({row.target for row in rows}) == 1 else "target"
    drawn = Table(title=title, title_justify="left")
    drawn.add_column("method", overflow="fold")
    headings = ["best", "mean of rounds", f"rounds to {target}", "speed-up", "seconds"]
    headings[4:4] = [f"virtual {unit} to {target}", f"virtual {unit}"] if hours is not None else []
    for heading in headings:
        whole = heading == "speed-up" and hours is not None  # where room is short, others have words to part between
        drawn.add_column(heading, justify="right", overflow="fold", no_wrap=whole)
    if several:
        drawn.add_column("seeds", justify="right")
    highest_best = max((row.best for row in rows), default=0.0)
    highest_mean = max((row.mean for row in rows), default=0.0)
    fewest = min((row.rounds for row in rows if row.rounds is not None), default=None)
    soonest = min((row.hours_to for row in rows if row.hours_to is not None), default=None)
    for row in rows:
        spread = f" ± {100 * row.best_std:.1f}" if row.best_std is not None else ""
        cells = [
            _bold(f"{100 * row.best:.1f}{spread}%", row.best == highest_best),
            _bold(f"{100 * row.mean:.1f}%", row.mean == highest_mean),
            _bold(f"{row.rounds:.4g}" if row.rounds is not None else f">{row.budget}", row.rounds == fewest),
            f"{row.speed_up:.2f}x" if row.speed_up is not None else "-",
            f"{row.seconds:.1f}",
        ]
        if hours is not None:
            to_target, in_all = _virtual(row, in_an_hour)
            cells[4:4] = [_bold(to_target, row.hours_to == soonest), in_all]
        drawn.add_row(_plain(row.name), *cells, *([str(row.seeds)] if several else []))
    return drawn


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    """None if any of them is."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _virtual(row: Row, in_an_hour: int) -> tuple[str, str]:
    """Virtual time to the target and in all."""
    if row.hours is None:
        return "-", "-"
    in_all = three_digits(in_an_hour * row.hours)
    return f">{in_all}" if row.hours_to is None else three_digits(in_an_hour * row.hours_to), in_all


def _bold(text: str, marked: bool) -> str:
    return f"[bold]{text}[/bold]" if marked else text


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
