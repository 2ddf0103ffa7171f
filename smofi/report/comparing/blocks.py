"""The paper's table from finished runs: a block for each setup, with the measures of each method and its differences
to its base, and the same as cells of text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from smofi.errors import InputError, refuse
from smofi.methods import bare_base
from smofi.report.comparing.formats import Target
from smofi.report.history import History, Scale
from smofi.report.measures import USUAL_BASELINE, Row, alike, measure
from smofi.report.names import label, plugins_of, rows_by_base, titles
from smofi.report.numbers import UNKNOWN, TimeUnit, three_digits, time_unit
from smofi.report.setups import Setup, read_runs, setups_of
from smofi.report.show import Snapshot
from smofi.runs import DamagedFile

# --------------------------------------------------------------------------------------------------------------------
# Differences between a method and its base, seed by seed: the same seed gives both the same partition, model and
# selection, so that what they share cancels out.


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


# --------------------------------------------------------------------------------------------------------------------
# Runs that belong in one table, and those that do not: two of the same are refused, unfinished ones left out.

SAME = {
    "data_sha256": "on other data",
    "partition_sha256": "with another partition",
    "devices_sha256": "with other devices",
}
"""What runs of one setup share if their seed is the same, and what to say if they do not."""


@dataclass(frozen=True)
class LeftOut:
    """A run that counts for nothing, and why."""

    run: Snapshot
    why: str

    @property
    def sentence(self) -> str:
        """What is said below the table."""
        return f"{self.run.method} with seed {self.run.config.seed} is left out: {self.why} ({self.run.path})"


@dataclass(frozen=True)
class Gathered:
    """The setups of finished runs, the runs left out of each, and the sentences of those that cannot be read."""

    setups: list[Setup]
    left_out: dict[str, list[LeftOut]]
    unreadable: list[str]

    @property
    def counted(self) -> list[Setup]:
        """The setups with the runs that count alone; refused if there is none."""
        gone = {id(one.run) for left_out in self.left_out.values() for one in left_out}
        counted = [
            replace(setup, runs=runs)
            for setup in self.setups
            if (runs := tuple(run for run in setup.runs if id(run) not in gone))
        ]
        if not counted:
            first = next(one for left_out in self.left_out.values() for one in left_out)
            raise InputError(f"no run counts: expected a finished one, but {first.sentence}")
        return counted


def gather(paths: Sequence[str | Path]) -> Gathered:
    """The runs of these folders by setup; refused if two of them are the same, or should be comparable and are not."""
    errors: list[DamagedFile] = []
    runs = read_runs(paths, errors)
    setups = setups_of(runs)
    for setup in setups:
        _check_once(setup)
        _check_comparable(setup)
    if not setups:
        raise InputError(str(errors[0]))
    left_out = {setup.name: [LeftOut(run, why) for run in setup.runs if (why := why_not(run))] for setup in setups}
    return Gathered(setups, left_out, [str(error) for error in errors])


def why_not(run: Snapshot) -> str:
    """Why a run is left out of averages; empty if it is not."""
    if run.damaged:
        return f"damaged: {run.damaged[0].what}"
    done = f"round {run.history.rounds} of {run.progress.rounds}"
    if run.state == "diverged":
        return f"it diverged after {done}, so the mean of the other seeds flatters the method"
    if run.state != "finished":
        return f"it is {run.state}, {done}"
    return "" if run.history.measured else "it was never evaluated"


def _check_once(setup: Setup) -> None:
    found: dict[tuple[str, int], Snapshot] = {}
    for run in setup.runs:
        first = found.setdefault((run.method, run.config.seed), run)
        if first is not run:
            raise InputError(
                f"{first.path} and {run.path} are the same run, {run.method} with seed {run.config.seed} and the same "
                "settings: expected each once; leave one of them out"
            )


def _check_comparable(setup: Setup) -> None:
    """The same settings should mean the same data, and with the same seed the same partition and devices."""
    for name, words in SAME.items():
        first: dict[int | None, Snapshot] = {}
        for run in setup.runs:
            if name not in run.about:  # earlier versions kept fewer
                continue
            other = first.setdefault(None if name == "data_sha256" else run.config.seed, run)
            if other.about[name] != run.about[name]:
                raise InputError(
                    f"{other.path} and {run.path} cannot be compared: they have the same settings, but the second ran "
                    f"{words} ({name} {str(run.about[name])[:12]} instead of {str(other.about[name])[:12]})"
                )


# --------------------------------------------------------------------------------------------------------------------
# The numbers of one setup: the measures of each method, and its differences to its base.


@dataclass(frozen=True)
class Block:
    """A setup in the table: its `methods`, the `rows` of those that have a run that counts, `by_seed` the rows of each
    seed alone, the differences to the base of those that have one. `notes` are what a reader must know, `incomplete`
    the methods of which runs do not count."""

    name: str
    methods: Sequence[str]
    rows: Mapping[str, Row]
    by_seed: Mapping[int, Sequence[Row]]
    paired: Mapping[str, Paired]
    notes: Sequence[str] = ()
    incomplete: frozenset[str] = frozenset()
    setup: Setup | None = None

    @classmethod
    def of(
        cls, name: str, histories: Sequence[History], target: Target | None = None, baseline: str = USUAL_BASELINE
    ) -> Block:
        """A block of histories, wherever they come from.

        >>> block = Block.of("IID", [History("fedavg", [0.2, 0.8]), History("smofi", [0.8, 0.9])])
        >>> block.rows["smofi"].speed_up, round(block.paired["smofi"].best.mean, 6)
        (2.0, 0.1)
        """
        counted, notes = with_target(histories, target or Target(), baseline)
        rows = _measured(counted, target or Target(), baseline)
        alone = {seed: [one for one in counted if one.seed == seed] for seed in sorted({one.seed for one in counted})}
        differences = ((row.name, _against_base(row, counted)) for row in rows)
        return cls(
            name,
            methods=list(dict.fromkeys(history.name for history in histories)),
            rows={row.name: row for row in rows},
            by_seed={seed: _measured(same, target or Target(), baseline) for seed, same in alone.items()},
            paired={method: one for method, one in differences if one is not None},
            notes=[*notes, *_uneven(rows, counted)],
            incomplete=frozenset(one.name for one in histories if all(one is not other for other in counted)),
        )

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """The methods by their bare base."""
        return rows_by_base(self.methods)


def blocks_of(gathered: Gathered, target: Target, baseline: str = USUAL_BASELINE) -> list[Block]:
    """A block for each setup; a baseline other than FedAvg must be in one of them."""
    methods = dict.fromkeys(run.method for setup in gathered.setups for run in setup.runs)
    if baseline != USUAL_BASELINE and baseline not in methods:
        refuse("baseline", baseline, "one of the runs: " + ", ".join(methods))
    partitions = {setup.config.partition for setup in gathered.setups}
    return [_block(setup, gathered.left_out[setup.name], target, baseline, partitions) for setup in gathered.setups]


def _block(
    setup: Setup, left_out: Sequence[LeftOut], target: Target, baseline: str, partitions: Collection[str]
) -> Block:
    counted = [run for run in setup.runs if all(run is not one.run for one in left_out)]
    block = Block.of(setup.name, [run.history for run in counted], target, baseline)
    return replace(
        block,
        methods=list(dict.fromkeys(run.method for run in setup.runs)),
        notes=[
            *(*block.notes, *(one.sentence for one in left_out), *_stopped(counted), *_versions(counted)),
            *_unbalanced(setup.config.partition, partitions),
        ],
        incomplete=block.incomplete | {one.run.method for one in left_out},
        setup=setup,
    )


def with_target(histories: Sequence[History], target: Target, baseline: str) -> tuple[Sequence[History], list[str]]:
    """The histories that have a target, and what is said of the others."""
    if target.fixed is not None or not histories:
        return histories, []
    seeds = {history.seed for history in histories if history.name == baseline}
    if not seeds:
        remedy = "choose another with --baseline, or fix the target, as in --target 70%"
        return histories, [f"There is no target, since {baseline} has no finished run here: {remedy}"]
    return [history for history in histories if history.seed in seeds], [
        f"{one.name} with seed {one.seed} is left out: {baseline} has no finished run with that seed, and so no target"
        for one in histories
        if one.seed not in seeds
    ]


def _measured(histories: Sequence[History], target: Target, baseline: str) -> list[Row]:
    """The rows; where there is no baseline, with a target that is out of reach."""
    if target.fixed is None and any(history.name == baseline for history in histories):
        return measure(histories, baseline, share=target.share)
    return measure(histories, baseline, target=math.inf if target.fixed is None else target.fixed)


def _against_base(row: Row, histories: Sequence[History]) -> Paired | None:
    if row.base is None or row.base == row.name:
        return None
    own, base = ([one for one in histories if one.name == name] for name in (row.name, row.base))
    return paired(own, base)


def _uneven(rows: Sequence[Row], histories: Sequence[History]) -> list[str]:
    """A sentence for each method whose seeds are not those of its base."""
    seeds = {row.name: sorted(one.seed for one in histories if one.name == row.name) for row in rows}
    return [
        f"{row.name} has {_seeds(seeds[row.name])}, {row.base} has {_seeds(seeds[row.base])}: the speed-up is over "
        "the seeds that both have"
        for row in rows
        if row.base is not None and seeds[row.base] != seeds[row.name]
    ]


def _seeds(numbers: Sequence[int]) -> str:
    """
    >>> _seeds([0]), _seeds([0, 2])
    ('seed 0', 'seeds 0, 2')
    """
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _stopped(runs: Sequence[Snapshot]) -> list[str]:
    """A sentence for each run that ended before its last round, which its mean over rounds depends on."""
    return [
        f"{run.method} with seed {run.config.seed} ended early, after round {run.history.rounds}: {run.stopped}"
        for run in runs
        if run.stopped and run.history.rounds < run.progress.rounds
    ]


def _versions(runs: Sequence[Snapshot]) -> list[str]:
    """A sentence if runs were made by different versions of smofi or torch."""
    found = {name: sorted({str(run.about[name]) for run in runs if name in run.about}) for name in ("smofi", "torch")}
    return [
        f"The runs were made with {name} {' and '.join(all_of)}" for name, all_of in found.items() if len(all_of) > 1
    ]


def _unbalanced(partition: str, partitions: Collection[str]) -> list[str]:
    """A sentence if the same Dirichlet is here with the balance rule and without it, as earlier versions had it."""
    balanced = partition.replace(", balance=False", "")
    if balanced == partition or balanced not in partitions:
        return []
    return [
        f"{partition} is not {balanced}, which is here too: it lacks the balance rule. Earlier versions divided so "
        f"and called it {balanced}"
    ]


# --------------------------------------------------------------------------------------------------------------------
# A block as cells of text, the same for every format: what the numbers are, and what is said below them.

MARK = "*"
"""Behind the number of seeds, where some runs do not count."""


@dataclass(frozen=True)
class Cell:
    """A number, its standard deviation if it has one, and whether it is the best of its column, among the methods that
    have as many seeds and rounds as most."""

    text: str
    spread: str = ""
    best: bool = False

    def __str__(self) -> str:
        return f"{self.text} ± {self.spread}" if self.spread else self.text


@dataclass(frozen=True)
class Line:
    """A method's row: its name as it is typed, its title, and its cells."""

    name: str
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Sheet:
    """A table of one setup: columns, and groups of lines, one for each bare base. `about` says what the numbers are,
    `notes` what is wrong with some of them."""

    title: str
    columns: list[str]
    groups: list[list[Line]]
    about: str = ""
    notes: Sequence[str] = ()


def results_sheet(block: Block) -> Sheet:
    """The measures of each method.

    >>> from smofi.report.history import History
    >>> sheet = results_sheet(Block.of("IID", [History("fedavg", [0.2, 0.8]), History("smofi", [0.8, 0.9])]))
    >>> sheet.columns
    ['best accuracy (%)', 'mean over rounds (%)', 'rounds to target', 'speed-up', 'seeds']
    >>> [str(cell) for cell in sheet.groups[0][1].cells]
    ['90.00', '85.00', '1', '2.00x', '1']
    """
    columns = _columns(block)
    cells = {name: [one[name] for one in columns.values()] for name in block.rows}
    missing = [Cell(UNKNOWN)] * (len(columns) - 1) + [Cell(f"0{MARK}")]
    lines = _lines(block, {name: cells.get(name, missing) for _, names in block.groups for name in names})
    return Sheet(block.name, list(columns), lines, _about(block), block.notes)


def differences_sheet(block: Block) -> Sheet | None:
    """What each method gains over its base; None if nothing can be compared."""
    if not block.paired:
        return None
    scale = next(iter(block.rows.values())).metric
    unit = "points" if scale.share else scale.short
    columns = [f"mean over rounds ({unit})", f"best {scale.short} ({unit})", "seeds"]
    cells = {
        name: [Cell(_gain(one.mean, scale)), Cell(_gain(one.best, scale)), Cell(str(len(one.seeds)))]
        for name, one in block.paired.items()
    }
    bases = {one.base for name, one in block.paired.items() if one.base != bare_base(name)}
    instead = f", {', '.join(sorted(bases))} in place of fedavg" if bases else ""
    how = f"Differences to the bare base{instead} with the same seed. In brackets the 95% interval: {HOW}."
    sure = how_sure([len(one.seeds) for one in block.paired.values()])
    return Sheet(block.name, columns, _lines(block, cells), f"{how} {sure}".strip())


def _lines(block: Block, cells: dict[str, list[Cell]]) -> list[list[Line]]:
    called = titles([name for _, names in block.groups for name in names])
    groups = []
    for base, names in block.groups:
        below = base in cells  # a plus needs what it is added to
        groups.append(
            [
                Line(*((_typed(name), label(name, called[name])) if below else (name, called[name])), cells[name])
                for name in names
                if name in cells
            ]
        )
    return [group for group in groups if group]


def _typed(name: str) -> str:
    """A method below its base, as it is typed.

    >>> _typed("fedprox(mu=0.1)+smofi"), _typed("fedprox(mu=0.1)"), _typed("sflv2")
    ('+ smofi', 'fedprox(mu=0.1)', 'sflv2')
    """
    return f"+ {'+'.join(plugins_of(name))}" if label(name, name.replace("+", " + ")).startswith("+") else name


def _columns(block: Block) -> dict[str, dict[str, Cell]]:
    """The cells of each column by the method."""
    rows = list(block.rows.values())
    if not rows:
        return {"seeds": {}}
    scale, percent = rows[0].metric, " (%)" * rows[0].metric.share
    ranked = alike([row for row in rows if row.name not in block.incomplete])

    def share(value: Callable[[Row], float], deviation: Callable[[Row], float | None]) -> dict[str, Cell]:
        best = _best(ranked, value)
        return {row.name: Cell(_number(value(row), scale), _number(deviation(row), scale), row in best) for row in rows}

    columns = {
        f"best {scale.short}{percent}": share(lambda row: row.best, lambda row: row.best_std),
        f"mean over rounds{percent}": share(lambda row: row.mean, lambda row: row.mean_std),
    }
    for other in rows[0].others:
        highest = _best(ranked, partial(_other, other))
        columns[f"best {other.name}{' (%)' * other.share}"] = {
            row.name: Cell(_number(row.others[other], other) or UNKNOWN, best=row in highest) for row in rows
        }
    fewest = _best(ranked, lambda row: row.rounds, min)
    columns["rounds to target"] = {
        row.name: Cell(_to_target(row, row.rounds, str(row.budget), three_digits), best=row in fewest) for row in rows
    }
    if any(row.speed_up is not None for row in rows):
        fastest = _best(ranked, lambda row: row.speed_up)
        columns["speed-up"] = {
            row.name: Cell(UNKNOWN if row.speed_up is None else f"{row.speed_up:.2f}x", best=row in fastest)
            for row in rows
        }
    if (longest := max((row.hours for row in rows if row.hours is not None), default=None)) is not None:
        columns |= _clock_columns(rows, ranked, time_unit(3600 * longest))
    columns["seeds"] = {row.name: Cell(_seeds_written(block, row)) for row in rows}
    return columns


def _clock_columns(rows: Sequence[Row], ranked: Sequence[Row], unit: TimeUnit) -> dict[str, dict[str, Cell]]:
    def shown(hours: float | None) -> str:
        return UNKNOWN if hours is None else three_digits(3600 * hours / unit.seconds)

    soonest = _best(ranked, lambda row: row.hours_to, min)
    return {
        f"{unit.name} to target": {
            row.name: Cell(_to_target(row, row.hours_to, shown(row.hours), shown), best=row in soonest) for row in rows
        },
        f"{unit.name} in all": {row.name: Cell(shown(row.hours)) for row in rows},
    }


def _to_target(row: Row, value: float | None, budget: str, text: Callable[[float], str]) -> str:
    """What it takes to reach the target; more than the budget if a seed misses it, unknown where there is no target."""
    if value is not None:
        return text(value)
    return UNKNOWN if math.isinf(row.target) or budget == UNKNOWN else f">{budget}"


def _best(
    ranked: Sequence[Row], value: Callable[[Row], float | None], choose: Callable[[Iterable[float]], float] = max
) -> list[Row]:
    """The row that is best, or several that are equally good, if there is more than one to choose from."""
    known = [(row, found) for row in ranked if (found := value(row)) is not None]
    best = choose(found for _, found in known) if known and len(ranked) > 1 else None
    return [row for row, found in known if found == best]


def _other(scale: Scale, row: Row) -> float | None:
    return row.others[scale]


def _number(value: float | None, scale: Scale) -> str:
    """Two decimals of a percentage, as in the paper; nothing where there is no number."""
    if value is None:
        return ""
    return f"{100 * value:.2f}" if scale.share else f"{value:.4g}"


def _gain(difference: Difference, scale: Scale) -> str:
    """
    >>> _gain(Difference(0.0123, -0.01, 0.0346), Scale("accuracy", share=True))
    '+1.23 [-1.00, +3.46]'
    """
    mean, *ends = (f"{100 * one:+.2f}" if scale.share else f"{one:+.4g}" for one in difference if one is not None)
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _seeds_written(block: Block, row: Row) -> str:
    return f"{row.seeds}{MARK * (row.name in block.incomplete)}"


def _about(block: Block) -> str:
    """What the numbers are, in a sentence or two."""
    rows = list(block.rows.values())
    if not rows:
        return "No run counts."
    said = ["± is the standard deviation over seeds."] if any(row.seeds > 1 for row in rows) else []
    if not math.isinf(rows[0].target):
        scale, fixed = rows[0].metric, not rows[0].target_is
        is_what = scale.text(rows[0].target) if fixed else f"{rows[0].target_is} with the same seed"
        said.append(f"The target is {is_what}; > means that a seed misses it.")
    if any(row.speed_up is not None for row in rows):
        said.append("The speed-up is the rounds of the bare base over those of the method.")
    if block.incomplete:
        said.append(f"{MARK} Some runs do not count.")
    return " ".join(said)
