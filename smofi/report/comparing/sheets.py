"""A block as cells of text, the same for every format: what the numbers are, and what is said below them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from smofi.methods import bare_base
from smofi.report.comparing.blocks import Block
from smofi.report.comparing.paired import HOW, Difference, how_sure
from smofi.report.history import Scale
from smofi.report.measures import Row, alike
from smofi.report.numbers import UNKNOWN, TimeUnit, three_digits, time_unit
from smofi.report.titles import label, plugins_of, titles

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
    columns["seeds"] = {row.name: Cell(_seeds(block, row)) for row in rows}
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


def _seeds(block: Block, row: Row) -> str:
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
