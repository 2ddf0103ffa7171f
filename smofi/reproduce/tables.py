"""An item in words and numbers: a table for each panel, sentences that follow from it, and whether claims hold."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import fmean

from rich.box import HORIZONTALS
from rich.table import Table
from rich.text import Text

from smofi.plural import plural
from smofi.report.numbers import UNKNOWN, TimeUnit, three_digits, time_unit
from smofi.report.results import Difference, History, Row, paired
from smofi.reproduce.items import BEST, HOURS, HOURS_TO, MEAN, MISSES, ROUNDS, Check, Claim, Item, Line
from smofi.reproduce.results import Measured

# --------------------------------------------------------------------------------------------------------------------
# A table of texts, for the terminal and as Markdown.


STAR = "*"


@dataclass
class Grid:
    """A heading for each column, and rows of as many cells; a cell that begins with a star is bold. Columns from
    `optional` on may be left out where there is no room."""

    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    title: str = ""
    optional: int = 1000

    def add(self, cells: Sequence[str]) -> None:
        assert len(cells) == len(self.headings)
        self.rows.append(list(cells))

    def markdown(self) -> str:
        """As Markdown.

        >>> print(Grid(["method", "R"], [["SMoFi", "*8"]]).markdown())
        | method | R |
        |---|---:|
        | SMoFi | **8** |
        """
        lines = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)]]
        lines += [[f"**{cell[1:]}**" if cell.startswith(STAR) else cell for cell in row] for row in self.rows]
        first, rule, *rest = ("| " + " | ".join(line) + " |" for line in lines)
        return "\n".join([first, rule.replace(" ", ""), *rest])

    def fitting(self, width: int) -> tuple[Table, list[str]]:
        """For a terminal of this width, and the headings of columns that do not fit."""
        shown = len(self.headings)
        while shown > self.optional and self._width(shown) > width:
            shown -= 1
        table = Table(box=HORIZONTALS, title=self.title or None, title_justify="left", title_style="bold")
        for number, heading in enumerate(self.headings[:shown]):
            table.add_column(Text(heading), justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*(_text(cell) for cell in row[:shown]))
        return table, self.headings[shown:]

    def _width(self, columns: int) -> int:
        """What the first columns take; headings may wrap between words."""
        longest = [
            max([*(len(cell.lstrip(STAR)) for cell in cells), *map(len, heading.split())])
            for heading, *cells in list(zip(self.headings, *self.rows, strict=True))[:columns]
        ]
        return sum(longest) + 3 * columns + 1


def _text(cell: str) -> Text:
    return Text(cell[1:], style="bold") if cell.startswith(STAR) else Text(cell)


# --------------------------------------------------------------------------------------------------------------------
# The numbers of the paper's tables, from the files beside this one; its figures come without numbers.


@dataclass(frozen=True)
class Published:
    """A method in one setup, as printed: accuracy in percent and its standard deviation, rounds to the target ("258" or
    ">1000"), and the speed-up or the hours, where the table has them. `source` is the table's label in the paper."""

    source: str
    setup: str
    method: str
    accuracy: str
    std: str
    rounds: str
    speed_up: str
    hours: str

    @property
    def text(self) -> str:
        """All of it in one cell.

        >>> published("table2")["CIFAR-10, Dir 0.2", "SMoFi"].text
        '81.82 %, R 56, 29.02 h'
        """
        rest = [f"{self.speed_up}x"] if self.speed_up else [f"{self.hours} h"] if self.hours else []
        return ", ".join([f"{self.accuracy} %", f"R {self.rounds}", *rest])


TABLES = ("table1", "table2", "distributions", "participation", "text-audio")


@cache
def published(table: str) -> dict[tuple[str, str], Published]:
    """The rows of a table by setup and method.

    >>> published("table1")["Tiny-ImageNet, Dir 0.2", "FedNAR + SMoFi"].speed_up
    '10.25'
    """
    text = (files("smofi.reproduce") / "published" / f"{table}.csv").read_text(encoding="utf-8")
    rows = [Published(**row) for row in csv.DictReader(text.splitlines())]
    return {(row.setup, row.method): row for row in rows}


# --------------------------------------------------------------------------------------------------------------------
# An item's panels as tables: our numbers, and the paper's beside them.


def table_of(item: Item, measured: Measured) -> Grid:
    """A panel's table. Of the lines on one base, the best accuracy, the best mean and the fewest rounds are bold."""
    panel, rows = measured.panel, measured.rows
    unit = _unit(rows.values()) if HOURS in item.draw else None
    setups = panel.beside if item.published else ()
    own = ["best accuracy", "mean over rounds", "R", "R by seed", "R↑", *([f"T, {unit.name}"] if unit else [])]
    grid = Grid(["method", *own, *(f"paper: {setup}" for setup in setups)], title=panel.title, optional=len(own) + 2)
    for line in panel.lines:
        row = rows.get(line)
        cells = _cells(row, line, measured, unit) if row else [UNKNOWN] * len(own)
        grid.add([line.label, *cells, *(_paper(item, setup, line) for setup in setups)])
    return grid


def readme_table(measured: Measured) -> Grid:
    """A short table for README: FedAvg and what is added to it."""
    near = [line for line, row in measured.rows.items() if row.base == measured.rows[measured.baseline].base]
    grid = Grid(["method", "best accuracy", "mean over rounds", "R", "R by seed", "R↑"])
    for line in near:
        grid.add([line.label, *_cells(measured.rows[line], line, measured, None)])
    return grid


def _cells(row: Row, line: Line, measured: Measured, unit: TimeUnit | None) -> list[str]:
    complete = [other for other in measured.rows.values() if other.seeds == len(measured.seeds)]
    near = [other for other in complete if other.base == row.base]
    missed = f">{row.budget}"
    cells = [
        _bold(f"{_spread(row.best, row.best_std)} %", row, near, lambda one: one.best),
        _bold(f"{_spread(row.mean, row.mean_std)} %", row, near, lambda one: one.mean),
        _bold(missed if row.rounds is None else f"{row.rounds:.1f}", row, near, lambda one: _less(one.rounds)),
        ", ".join(missed if rounds is None else str(rounds) for rounds in measured.rounds_by_seed(line).values()),
        UNKNOWN if row.speed_up is None else f"{row.speed_up:.2f}x",
    ]
    if unit:
        hours = _bold(_hours(row, unit), row, near, lambda one: _less(one.hours_to))
        cells.append(hours)
    return cells


def _bold(text: str, row: Row, near: Sequence[Row], value: Callable[[Row], float | None]) -> str:
    known = [found for one in near if (found := value(one)) is not None]
    best = row in near and len(known) > 1 and value(row) == max(known)
    return f"{STAR}{text}" if best else text


def _less(value: float | None) -> float | None:
    return None if value is None else -value


def _spread(mean: float, deviation: float | None) -> str:
    return f"{100 * mean:.1f}" if deviation is None else f"{100 * mean:.1f} ± {100 * deviation:.1f}"


def _unit(rows: Iterable[Row]) -> TimeUnit | None:
    longest = max((row.hours for row in rows if row.hours is not None), default=None)
    return None if longest is None else time_unit(3600 * longest)


def _hours(row: Row, unit: TimeUnit) -> str:
    if row.hours is None:
        return UNKNOWN
    hours = row.hours if row.hours_to is None else row.hours_to
    return (">" if row.hours_to is None else "") + three_digits(3600 * hours / unit.seconds)


def _paper(item: Item, setup: str, line: Line) -> str:
    found = published(item.published).get((setup, line.published or line.label))
    return found.text if found else UNKNOWN


# --------------------------------------------------------------------------------------------------------------------
# Sentences that follow from the numbers: who is first in how many seeds, and by how much.

OURS = "SMoFi"


def findings(measured: Measured) -> list[str]:
    """What a panel's numbers say. Only lines with all the panel's seeds are compared."""
    complete = [line for line in measured.panel.lines if len(measured.histories[line]) == len(measured.seeds) > 0]
    if len(complete) < 2 or measured.baseline not in complete:
        return []
    if any(line.value for line in complete):
        return _along(measured, complete)
    sentences = []
    for base in dict.fromkeys(measured.rows[line].base for line in complete):
        near = [line for line in complete if measured.rows[line].base == base]
        ours = next((line for line in near if line.label.split(" + ")[-1] == OURS), None)
        if ours and len(near) > 1:
            best = max((line for line in near if line is not ours), key=lambda line: measured.rows[line].mean)
            sentences += [_first(measured, ours, near)]
            sentences += [_ahead(measured, ours, other) for other in dict.fromkeys([near[0], best])]
    if not sentences and len(complete) == 2:
        sentences = [_ahead(measured, complete[1], complete[0])]
    return sentences


def _first(measured: Measured, ours: Line, near: Sequence[Line]) -> str:
    """In how many seeds ours is ahead of all others."""
    seeds = measured.seeds
    reached = [_place(ours, {line: _sooner(measured.rounds_by_seed(line)[seed]) for line in near}) for seed in seeds]
    best = [_place(ours, {line: max(_of(measured, line, seed).measured) for line in near}) for seed in seeds]
    mean = [_place(ours, {line: fmean(_of(measured, line, seed).measured) for line in near}) for seed in seeds]
    return (
        f"Of these {plural(len(near), 'method')}, {ours.label} reaches the target first in {_count(reached)}, has the "
        f"highest mean over rounds in {_count(mean)} and the best accuracy in {_count(best)} of "
        f"{plural(len(seeds), 'seed')}."
    )


def _place(ours: Line, values: dict[Line, float]) -> str:
    others = max(value for line, value in values.items() if line is not ours)
    return "first" if values[ours] > others else "level" if values[ours] == others > float("-inf") else "behind"


def _sooner(rounds: int | None) -> float:
    return float("-inf") if rounds is None else -rounds


def _count(places: Sequence[str]) -> str:
    """How often first.

    >>> _count(["first", "level", "behind"]), _count(["first"])
    ('1 (level with another in 1)', '1')
    """
    level = places.count("level")
    return str(places.count("first")) + (f" (level with another in {level})" if level else "")


def _ahead(measured: Measured, ours: Line, base: Line) -> str:
    """By how much, seed by seed, with the interval of `smofi compare`."""
    found = paired(measured.histories[ours], measured.histories[base])
    assert found
    with_intervals = ", with 95 % intervals" if len(found.seeds) > 1 else ""
    return (
        f"{ours.label} against {base.label}, seed by seed{with_intervals}: best accuracy {_points(found.best)}, mean "
        f"over rounds {_points(found.mean)}."
    )


def _points(difference: Difference) -> str:
    """A difference of shares, in points of percent.

    >>> _points(Difference(0.02, -0.001, 0.041)), _points(Difference(0.01))
    ('+2.0 points (-0.1 to +4.1)', '+1.0 points')
    """
    between = (
        ""
        if difference.low is None or difference.high is None
        else f" ({_signed(difference.low)} to {_signed(difference.high)})"
    )
    return f"{_signed(difference.mean)} points{between}"


def _signed(share: float) -> str:
    """
    >>> _signed(0.0123), _signed(-0.0123), _signed(-0.0001)
    ('+1.2', '-1.2', '0.0')
    """
    rounded = round(100 * share, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def _of(measured: Measured, line: Line, seed: int) -> History:
    return next(history for history in measured.histories[line] if history.seed == seed)


def _along(measured: Measured, lines: Iterable[Line]) -> list[str]:
    """Of lines that differ in one value."""
    rows, base = measured.rows, measured.baseline
    varied = [line for line in lines if line.value]
    if len(varied) < 2:
        return []
    above = [line for line in varied if rows[line].best > rows[base].best]
    steady = [line for line in varied if rows[line].mean > rows[base].mean]
    highest = max(varied, key=lambda line: rows[line].best)
    steadiest = max(varied, key=lambda line: rows[line].mean)
    fastest = [line for line in varied if rows[line].rounds is not None]
    sentences = [
        f"Mean best accuracy is above {base.label}'s at {len(above)} of {len(varied)} settings, the mean over rounds "
        f"at {len(steady)}.",
        f"The best accuracy is highest with {highest.label} ({100 * rows[highest].best:.1f} %), the mean over rounds "
        f"with {steadiest.label} ({100 * rows[steadiest].mean:.1f} %).",
        _ahead(measured, steadiest, base),
    ]
    if fastest:
        quick = min(fastest, key=lambda line: rows[line].rounds or 0)
        sentences.append(f"The target is reached soonest with {quick.label} (R {rows[quick].rounds:.1f}).")
    return sentences + _same_value(measured, varied)


def _same_value(measured: Measured, varied: Sequence[Line]) -> list[str]:
    """Two methods at the same values, if there are two."""
    groups = list(dict.fromkeys(line.group for line in varied if line.group))
    if len(groups) != 2:
        return []
    one, other = ({line.value: measured.rows[line] for line in varied if line.group == group} for group in groups)
    pairs = [(one[value], other[value]) for value in one if value in other]
    best = sum(first.best > second.best for first, second in pairs)
    mean = sum(first.mean > second.mean for first, second in pairs)
    sooner = sum(_fewer(first.rounds, second.rounds) for first, second in pairs)
    return [
        f"Both have all seeds at {plural(len(pairs), 'value')}: {groups[0]} is above {groups[1]} in mean best accuracy "
        f"at {best}, in the mean over rounds at {mean}, and needs fewer rounds to the target at {sooner}."
    ]


def _fewer(one: float | None, other: float | None) -> bool:
    """Whether one took fewer rounds; None is a target that was missed.

    >>> _fewer(3.0, None), _fewer(None, 3.0), _fewer(3.0, 3.0)
    (True, False, False)
    """
    return one is not None and (other is None or one < other)


# --------------------------------------------------------------------------------------------------------------------
# The paper's claims, each with the comparisons by which it holds in our numbers or does not.

EVERY, MEANS, NOT, UNTOLD = "holds with every seed", "holds on average", "does not hold", "cannot be told"
UNITS = {BEST: " %", MEAN: " %", ROUNDS: " rounds", HOURS_TO: " h"}
SHOWN = 3
"""Up to this number of comparisons, each is shown with its numbers; of more, the one that holds least."""


@dataclass(frozen=True)
class Compared:
    """One comparison: ours and the best of the others with each seed, where more is better."""

    words: str
    ours: tuple[float, ...]
    others: tuple[float, ...]
    by: str

    @property
    def always(self) -> bool:
        """Whether it holds with every seed. Level counts in rounds, where ties are common."""
        return all(self._holds(*pair) for pair in zip(self.ours, self.others, strict=True))

    @property
    def on_average(self) -> bool:
        """Whether it holds for the means over seeds."""
        return self._holds(fmean(self.ours), fmean(self.others))

    def _holds(self, one: float, other: float) -> bool:
        return one > other or (one == other and self.by in (ROUNDS, MISSES))


def verdict(claim: Claim, panels: Sequence[Measured]) -> tuple[str, str]:
    """Return whether a claim holds here, and the numbers that say so."""
    if not claim.checks:
        return UNTOLD, claim.why
    compared = [found for check in claim.checks for found in _compared(check, panels)]
    if not compared:
        return UNTOLD, "its runs are not complete yet"
    word = NOT
    if all(one.on_average for one in compared):
        word = EVERY if all(one.always for one in compared) else MEANS
    if len(compared) <= SHOWN:
        return word, "; ".join(one.words for one in compared)
    holding = sum(one.on_average for one in compared)
    least = min(compared, key=lambda one: (one.on_average, fmean(one.ours) - fmean(one.others)))
    return word, f"{holding} of {len(compared)} comparisons hold on average; the least: {least.words}"


def _compared(check: Check, panels: Sequence[Measured]) -> Iterator[Compared]:
    """The comparisons that a check stands for; of incomplete lines there are none."""
    for number, panel in enumerate(panels):
        if check.panel not in (None, number):
            continue
        ours = _values(panel, check.ours, check)
        if ours and check.by == MISSES:
            words = f"{check.ours} misses it with {sum(map(int, ours))} of {len(ours)} seeds"
            yield Compared(words, ours, (1.0,) * len(ours), check.by)
            continue
        if check.than:
            rivals = [_values(panels[other], check.ours, check) for other in check.than]
            names = [panels[other].panel.title.rpartition(", ")[2] for other in check.than]
        else:
            base = check.ours.rpartition(" + ")[0]
            own = [line.label for line in panel.panel.lines]
            near = [label for label in own if label != check.ours and (label == base or label.startswith(f"{base} + "))]
            labels = check.others or (near if base else [label for label in own if label != check.ours])
            rivals, names = [_values(panel, label, check) for label in labels], list(labels)
        if not ours or not all(rivals):
            continue
        means = [fmean(values) for values in rivals if values]
        best = names[means.index(max(means))]
        others = tuple(max(values[seed] for values in rivals if values) for seed in range(len(ours)))
        where = panel.panel.title.rpartition(", ")[2]
        subject = f"{check.ours} in {where}" if check.than or len(panels) > 1 else check.ours
        words = f"{subject} {_number(fmean(ours), check)} against {_number(max(means), check)} ({best})"
        yield Compared(words, ours, others, check.by)


def _values(panel: Measured, label: str, check: Check) -> tuple[float, ...] | None:
    """A line's values with every seed, more being better; None if the line is not there, or not complete."""
    line = next((one for one in panel.panel.lines if one.label == label), None)
    if line is None or len(panel.histories[line]) < len(panel.every_seed):
        return None
    found = []
    for history in panel.histories[line]:
        target = panel.target_of(history.seed)
        rounds = history.rounds_to(target)
        hours = math.inf if rounds is None or not history.hours else history.hours[rounds - 1]
        values = {
            BEST: 100 * max(history.measured),
            MEAN: 100 * fmean(history.measured),
            ROUNDS: -math.inf if rounds is None else -rounds,
            MISSES: float(rounds is None),
            HOURS_TO: -hours,
        }
        found.append(values[check.by])
    if check.over and check.over != label:
        base = _values(panel, check.over, Check(check.over, by=check.by))
        return base and tuple(one - other for one, other in zip(found, base, strict=True))
    return tuple(found)


def _number(value: float, check: Check) -> str:
    if math.isinf(value):
        return "the target missed"
    if check.over:
        return f"{value:+.1f}{' points' if check.by in (BEST, MEAN) else ' rounds'}"
    return f"{abs(value):.3g}{UNITS[check.by]}" if check.by == HOURS_TO else f"{abs(value):.1f}{UNITS[check.by]}"


def claims_table(measured: Sequence[tuple[Item, Sequence[Measured]]]) -> str:
    """Return a table of all claims in Markdown, each with its verdict, its numbers, and the section it rests on."""
    rows = ["| the paper says | here | our numbers |", "|---|---|---|"]
    for item, panels in measured:
        anchor = "".join(letter for letter in item.title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
        for claim in item.claims:
            word, numbers = verdict(claim, panels)
            rows.append(f"| {claim.words} | **{word}** | {numbers} ([{item.name}](#{anchor})) |")
    return "\n".join(rows)
