"""The table of results: its columns, the blocks of finished runs, and writing both as text, CSV, Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.engine.metrics import ON_TRAINING
from smofi.errors import refuse
from smofi.methods import bare_base
from smofi.plural import plural
from smofi.report.asked import MADE, Target
from smofi.report.names import Name, NamesTable, label, plugins_of, rows_by_base, titles
from smofi.report.numbers import UNKNOWN, four_digits, percent, three_digits, time_unit
from smofi.report.results import (
    HOW,
    USUAL_BASELINE,
    Difference,
    History,
    Paired,
    Row,
    Scale,
    alike,
    finite,
    measure,
    paired,
    student_t,
)
from smofi.report.snapshots import Setup
from smofi.report.style import plain_table

# --------------------------------------------------------------------------------------------------------------------
# The columns of the measures: the same for the terminal, files and the page.


@dataclass(frozen=True)
class Cell:
    """A number as text, its standard deviation if it has one, the sign behind both, the number itself if it is known,
    and whether it is the best of its column."""

    text: str
    spread: str = ""
    sign: str = ""
    value: float | None = None
    best: bool = False

    def __str__(self) -> str:
        return (f"{self.text} ± {self.spread}" if self.spread else self.text) + self.sign


@dataclass(frozen=True)
class Column:
    """A heading, the cells below it, and what the numbers are."""

    heading: str
    cells: Sequence[Cell]
    about: str = ""


LISTED = 5
"""Up to this many seeds, each one's rounds to the target are shown."""


def columns_of(
    rows: Sequence[Row], ranked: Sequence[Row], *, paper: bool = False, by_seed: bool = False
) -> dict[str, Column]:
    """Return all columns by a short name. The best is bold of the rows that can be ranked, if there are several.

    For a `paper`, percentages have two decimals and their sign in the heading. `by_seed` lists the rounds to the target
    of each seed instead of their deviation, where there is room."""
    columns: dict[str, Column] = {}
    metric, most = rows[0].metric, max(row.seeds for row in rows)
    longest = max((row.hours for row in rows if row.hours is not None), default=None)

    def add(name: str, heading: str, cells: Sequence[Cell], better: int = 0, about: str = "") -> None:
        """`better` is 1 where more is better, -1 where less is."""
        pairs = list(zip(rows, cells, strict=True))
        known = [better * cell.value for row, cell in pairs if row in ranked and cell.value is not None]
        best = max(known) / better if better and len(ranked) > 1 and known else None
        marked = [replace(cell, best=best is not None and row in ranked and cell.value == best) for row, cell in pairs]
        columns[name] = Column(heading, marked, about)

    def measured(scale: Scale, heading: str, values: Sequence[tuple[float | None, float | None]]) -> None:
        def text(number: float | None) -> str:
            if number is None:
                return ""
            return f"{100 * number:.{2 if paper else 1}f}" if scale.share else four_digits(number)

        sign = "%" * scale.share
        cells = [
            Cell(UNKNOWN) if value is None else Cell(text(value), text(deviation), sign * (not paper), value)
            for value, deviation in values
        ]
        add(heading, f"{heading} ({sign})" if paper and sign else heading, cells, 1)

    def until(row: Row, value: float | None, deviation: float | None, budget: float | None, per: float = 1.0) -> Cell:
        """More than the budget if a seed misses the target, unknown where there is none."""
        if value is None:
            return Cell(UNKNOWN if math.isinf(row.target) or budget is None else f">{three_digits(budget * per)}")
        shown = three_digits(value * per)
        decimals = max(1, len(shown.partition(".")[2]))
        return Cell(shown, "" if paper or deviation is None else f"{deviation * per:.{decimals}f}", value=value)

    def best_of(scale: Scale) -> str:
        return f"{scale.name} at best" if scale.name.startswith("worst") and not paper else f"best {scale.name}"

    best, mean = f"best {metric.short}" if paper else best_of(metric), "mean over rounds"
    both = {mean: [(row.mean, row.mean_std) for row in rows], best: [(row.best, row.best_std) for row in rows]}
    for heading in (best, mean) if paper else (mean, best):
        measured(metric, heading, both[heading])
    for other in rows[0].others:
        measured(other, best_of(other), [(row.others[other], None) for row in rows])
    rounds = [until(row, row.rounds, None if by_seed else row.rounds_std, row.budget) for row in rows]
    add("rounds", "rounds to target", rounds, -1)
    if by_seed and longest is None and 1 < most <= LISTED:  # virtual time needs the room
        texts = [[f">{row.budget}" if one is None else str(one) for one in row.rounds_by_seed] for row in rows]
        add("by seed", "seed by seed", [Cell(", ".join(own)) for own in texts])
    if any(row.speed_up is not None for row in rows):
        ups = [Cell(UNKNOWN if row.speed_up is None else f"{row.speed_up:.2f}x", value=row.speed_up) for row in rows]
        add("speed-up", "speed-up", ups, int(paper), "rounds to target of the base, divided by those of the method")
    if longest is not None:
        unit, about = time_unit(3600 * longest), "virtual time on the clients' devices"
        per = 3600 / unit.seconds
        to_target = [until(row, row.hours_to, row.hours_to_std, row.hours, per) for row in rows]
        in_all = [Cell(three_digits(row.hours and row.hours * per), value=row.hours) for row in rows]
        add("to target", f"{'virtual ' * (not paper)}{unit.name} to target", to_target, -1, about)
        add("in all", f"{unit.name} in all" if paper else f"virtual {unit.name}", in_all, about=about)
    if any(row.seconds for row in rows):
        seconds = [Cell(f"{row.seconds:.1f}", value=row.seconds) for row in rows]
        add("seconds", "seconds a run", seconds, about="time that training took on the computer")
    add("seeds", "seeds", [Cell(str(row.seeds), value=float(row.seeds)) for row in rows])
    return columns


def results_table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """Make the table that is printed after training, with what the target is below. The mean over rounds, which is the
    steadiest measure, comes first. Where no row has a speed-up, there is no column for it."""
    columns = columns_of(rows, rows, by_seed=True)
    if len({row.seeds for row in rows}) == 1:
        del columns["seeds"]
    drawn = NamesTable(title=title, title_justify="left", caption=_caption(rows), caption_justify="left")
    drawn.add_column("method")
    for column in columns.values():
        drawn.add_column(Text(column.heading), justify="right")
    for row, *cells in zip(rows, *(column.cells for column in columns.values()), strict=True):
        drawn.add_row(Name(row.name), *map(_drawn, cells))
    return drawn


def _drawn(cell: Cell) -> Text:
    return Text(str(cell), style="bold" if cell.best else "")


def target_of(rows: Sequence[Row]) -> str:
    """Say what rounds are counted to: a number, what it is of, or both."""
    first = rows[0]
    number = first.metric.text(first.target)
    if not first.target_is:
        return number
    what = first.target_is + ("" if first.metric.name.startswith("worst") else f" {first.metric.short}")
    return f"{what} with the same seed" if max(row.seeds for row in rows) > 1 else f"{number}: {what}"


def _caption(rows: Sequence[Row]) -> str:
    """Say what the target is, what ± is, and what a speed-up is measured against where that differs."""
    most, text = max(row.seeds for row in rows), f"The target is {target_of(rows)}"
    if most > 1:
        text += f"; ± is the standard deviation over {plural(most, 'seed')}"
    others = [row for row in rows if row.speed_up is not None and row.base not in (None, row.name)]
    if len({row.base for row in others}) > 1:
        text += f". A speed-up is against the bare base: that of {others[-1].name} is {others[-1].base}"
    return f"{text}.".replace("[", r"\[")


# --------------------------------------------------------------------------------------------------------------------
# The paper's table of finished runs: for each setup the measures of each method, and its differences to its base.


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
        """Make a block of histories, wherever they come from."""
        target = target or Target()
        counted, notes = with_target(histories, target, baseline)

        def measured(same: Sequence[History]) -> list[Row]:
            if target.fixed is None and any(history.name == baseline for history in same):
                return measure(same, baseline, share=target.share)
            return measure(same, baseline, target=math.inf if target.fixed is None else target.fixed)  # out of reach

        rows = {row.name: row for row in measured(counted)} if counted else {}
        own = {name: [one for one in counted if one.name == name] for name in rows}
        seeds = {name: sorted(one.seed for one in same) for name, same in own.items()}
        differences = {
            name: found
            for name, row in rows.items()
            if row.base not in (None, name) and (found := paired(own[name], own[str(row.base)]))
        }
        uneven = [
            f"{name} has {_seeds(seeds[name])}, {row.base} has {_seeds(seeds[row.base])}: the speed-up is over the "
            "seeds that both have"
            for name, row in rows.items()
            if row.base is not None and seeds[row.base] != seeds[name]
        ]
        return cls(
            name,
            methods=list(dict.fromkeys(history.name for history in histories)),
            rows=rows,
            by_seed={
                seed: measured([one for one in counted if one.seed == seed])
                for seed in sorted({one.seed for one in counted})
            },
            paired=differences,
            notes=[*notes, *uneven],
            incomplete=frozenset(one.name for one in histories if all(one is not other for other in counted)),
        )

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        return rows_by_base(self.methods)


def blocks_of(setups: Sequence[Setup], target: Target, baseline: str = USUAL_BASELINE) -> list[Block]:
    """Make a block for each setup; a baseline other than FedAvg must be in one of them."""
    methods = dict.fromkeys(run.method for setup in setups for run in setup.runs)
    if baseline != USUAL_BASELINE and baseline not in methods:
        refuse("baseline", baseline, "one of the runs: " + ", ".join(methods))
    partitions = {setup.config.partition for setup in setups}
    blocks = []
    for setup in setups:
        block = Block.of(setup.name, setup.counted.histories, target, baseline)
        blocks.append(
            replace(
                block,
                methods=list(dict.fromkeys(run.method for run in setup.runs)),
                notes=[*block.notes, *_remarks(setup, partitions)],
                incomplete=block.incomplete | {run.method for run in setup.runs if run.uncounted},
                setup=setup,
            )
        )
    return blocks


def with_target(histories: Sequence[History], target: Target, baseline: str) -> tuple[Sequence[History], list[str]]:
    """Return the histories that have a target, and what is said of the others."""
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


def _seeds(numbers: Sequence[int]) -> str:
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _remarks(setup: Setup, partitions: Collection[str]) -> Iterable[str]:
    """Name the runs left out, those that ended early, and what may make numbers not comparable."""
    runs, partition = setup.counted.runs, setup.config.partition
    yield from setup.left_out
    for run in runs:
        if run.stopped and run.history.rounds < run.progress.rounds:
            yield f"{run.called} ended early, after round {run.history.rounds}: {run.stopped}"
    for name in ("smofi", "torch"):
        versions = sorted({str(run.about[name]) for run in runs if name in run.about})
        if len(versions) > 1:
            yield f"The runs were made with {name} {' and '.join(versions)}"
    balanced = partition.replace(", balance=False", "")
    if balanced != partition and balanced in partitions:
        yield (
            f"{partition} is not {balanced}, which is here too: it lacks the balance rule. Earlier versions divided so "
            f"and called it {balanced}"
        )


# --------------------------------------------------------------------------------------------------------------------
# A block as cells of text, the same for every format: what the numbers are, and what is said below them.

MARK = "*"
"""Behind the number of seeds, where some runs do not count."""


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


def sheets_of(blocks: Sequence[Block]) -> list[Sheet]:
    differences = [differences_sheet(block) for block in blocks]
    return [*map(results_sheet, blocks), *(sheet for sheet in differences if sheet is not None)]


def results_sheet(block: Block) -> Sheet:
    rows = list(block.rows.values())
    found = (
        columns_of(rows, alike([row for row in rows if row.name not in block.incomplete]), paper=True) if rows else {}
    )
    columns = [column for name, column in found.items() if name != "seconds"] or [Column("seeds", [])]
    cells = {row.name: [column.cells[place] for column in columns] for place, row in enumerate(rows)}
    for name in block.methods:
        own = cells.get(name) or [*[Cell(UNKNOWN)] * (len(columns) - 1), Cell("0")]
        mark = MARK * (name in block.incomplete or name not in block.rows)
        cells[name] = [*own[:-1], replace(own[-1], text=own[-1].text + mark)]
    said = ["± is the standard deviation over seeds."] if any(row.seeds > 1 for row in rows) else []
    if rows and not math.isinf(rows[0].target):
        said.append(f"The target is {target_of(rows)}; > means that a seed misses it.")
    if any(row.speed_up is not None for row in rows):
        said.append("The speed-up is the rounds of the bare base over those of the method.")
    if block.incomplete:
        said.append(f"{MARK} Some runs do not count.")
    about = " ".join(said) if rows else "No run counts."
    return Sheet(block.name, [column.heading for column in columns], _lines(block, cells), about, block.notes)


def differences_sheet(block: Block) -> Sheet | None:
    """Lay out what each method gains over its base; None if nothing can be compared."""
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
    about = f"Differences to the bare base{instead} with the same seed. In brackets the 95% interval: {HOW}."
    fewest = min(len(one.seeds) for one in block.paired.values())
    if fewest == 1:
        about += " One seed has no interval."
    elif fewest <= 3:
        about += f" With {fewest} seeds the interval is wide: t is {student_t(fewest - 1):.1f}, and 2.0 with many."
    return Sheet(block.name, columns, _lines(block, cells), about)


def _gain(difference: Difference, scale: Scale) -> str:
    mean, *ends = (f"{100 * one:+.2f}" if scale.share else f"{one:+.4g}" for one in difference if one is not None)
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _lines(block: Block, cells: Mapping[str, list[Cell]]) -> list[list[Line]]:
    """Group the methods below their base; below it, a plugin has a plus."""
    called = titles([name for _, names in block.groups for name in names])

    def line(base: str, name: str) -> Line:
        if base not in cells:  # a plus needs what it is added to
            return Line(name, called[name], cells[name])
        title = label(name, called[name])
        return Line(f"+ {'+'.join(plugins_of(name))}" if title.startswith("+") else name, title, cells[name])

    groups = [[line(base, name) for name in names if name in cells] for base, names in block.groups]
    return [group for group in groups if group]


# --------------------------------------------------------------------------------------------------------------------
# The table for the terminal, and blocks in one of the other formats as the content of a file.


def as_text(sheets: Sequence[Sheet]) -> RenderableType:
    parts: list[RenderableType] = []
    for sheet in sheets:
        drawn = NamesTable(title=Text(sheet.title), title_justify="left")
        drawn.add_column("method")
        for heading in sheet.columns:
            drawn.add_column(Text(heading), justify="right")
        for group in sheet.groups:
            for line in group:
                drawn.add_row(Name(line.name), *map(_drawn, line.cells), end_section=line is group[-1])
        parts += [drawn, *(Text(note, style="dim") for note in (sheet.about, *sheet.notes) if note), Text("")]
    return Group(*parts[:-1])


def written_as(form: str, blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """Write the whole table as Markdown, LaTeX or CSV."""
    if form == "csv":
        return as_csv(blocks, per_seed=per_seed)
    if form == "latex":
        return as_latex(sheets_of(blocks))
    return f"<!-- {MADE} -->\n\n{as_markdown(sheets_of(blocks))}"


# For programs: plain numbers, accuracies between 0 and 1, nothing where there is no number.
ROW = ("seeds", "best", "best_std", "mean", "mean_std", "rounds", "rounds_std", "budget", "speed_up", "target")
RUN = ("best", "mean", "target", "rounds", "budget", "hours_to", "hours", "seconds")
TIMES = ("hours_to", "hours_to_std", "hours", "seconds")


def as_csv(blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """Write a row for each method of each setup, or for each run; settings that differ between setups have columns."""

    def plain(value: Any) -> Any:  # as short as it can be without loss; a target that does not exist is left empty
        if isinstance(value, float):
            return "" if math.isinf(value) else f"{value:.10g}"
        return "" if value is None else value

    rows = [row for block in blocks for row in _csv_rows(block, per_seed=per_seed)]
    written = io.StringIO()
    writer = csv.DictWriter(written, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: plain(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _csv_rows(block: Block, *, per_seed: bool) -> Iterable[Mapping[str, Any]]:
    settings = block.setup.settings if block.setup else {}
    folders = {(run.method, run.config.seed): run.path for run in (block.setup.runs if block.setup else ())}
    for base, name in [(base, name) for base, names in block.groups for name in names]:
        first = {"setup": block.name, **settings, "method": name, "bare_base": base}
        if per_seed:
            for seed, rows in block.by_seed.items():
                for row in (one for one in rows if one.name == name):
                    values = {field: getattr(row, field) for field in RUN}
                    yield {**first, "seed": seed, **values, "folder": folders.get((name, seed))}
            continue
        found, measured = block.paired.get(name), block.rows.get(name)
        gains = {}
        for field, difference in {"mean": found and found.mean, "best": found and found.best}.items():
            for end, value in zip(("", "_low", "_high"), difference or (None,) * 3, strict=True):
                gains[f"{field}_gain{end}"] = value
        yield {
            **first,
            **{field: getattr(measured, field, None) for field in (*ROW, *TIMES)},
            "compared_with": found.base if found else None,
            "pairs": len(found.seeds) if found else None,
            **gains,
            "complete": name not in block.incomplete,
        }


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Write every sheet as a table with pipes, its title as a heading."""

    def text(words: str) -> str:
        return re.sub(r"([|*_`<\[\]])", r"\\\1", words)

    def cell(one: Cell) -> str:
        return f"**{text(str(one))}**" if one.best else text(str(one))

    tables = []
    for sheet in sheets:
        rows = [[text(line.title), *map(cell, line.cells)] for group in sheet.groups for line in group]
        lines = [f"**{text(sheet.title)}**", ""] if sheet.title else []
        lines += [f"| {' | '.join(['method', *sheet.columns])} |", "|---|" + "---:|" * len(sheet.columns)]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        for note in filter(None, (sheet.about, *sheet.notes)):
            lines += ["", text(note)]
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


# In LaTeX, with booktabs, deviations in small print and the best in bold, as in the paper.
HEADINGS = {"rounds to target": r"R", "speed-up": r"R$\uparrow$", "method": "Methods"}
MINUS = re.compile(r"(?<![\w.])-(?=\d)")
SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "√": r"$\surd$",
    "↑": r"$\uparrow$",
}


def as_latex(sheets: Sequence[Sheet]) -> str:
    """Write sheets with the same columns that follow each other as one table, setup below setup. What is wrong with
    some numbers stands in comments above it."""
    tables = [list(same) for _, same in groupby(sheets, key=lambda sheet: sheet.columns)]
    return "\n".join([rf"% {MADE}. It needs \usepackage{{booktabs}}.", *map(_latex_table, tables)])


def _latex_table(sheets: Sequence[Sheet]) -> str:
    columns = sheets[0].columns
    head = " & ".join(rf"\textbf{{{HEADINGS.get(one) or latex_text(one)}}}" for one in ("method", *columns))
    about = " ".join(latex_text(about) for about in dict.fromkeys(sheet.about for sheet in sheets))
    about = about.replace("The speed-up is", r"R is the rounds to the target, R$\uparrow$ the speed-up:")
    lines = [f"% {' '.join(note.split())}" for sheet in sheets for note in sheet.notes]
    lines += [r"\begin{table}[t]", r"\centering", rf"\caption{{{about}}}"]
    lines += [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", rf"{head} \\"]
    for sheet in sheets:
        lines.append(r"\midrule")
        if sheet.title:
            title = rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{\textit{{{latex_text(sheet.title)}}}}} \\"
            lines += [title, r"\midrule"]
        for number, group in enumerate(sheet.groups):
            lines += [r"\midrule"] * (number > 0)
            lines += [" & ".join([latex_text(line.title), *map(latex_cell, line.cells)]) + r" \\" for line in group]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def latex_cell(cell: Cell) -> str:
    text = re.sub(r"(?<=\d)x$", r"$\\times$", cell.text) if cell.text[:1].isdigit() else latex_text(cell.text)
    text += rf"{{\scriptsize$\pm${cell.spread}}}" if cell.spread else ""
    return rf"\textbf{{{text}}}" if cell.best else text


def latex_text(text: str) -> str:
    r"""Write text with the characters that LaTeX takes for its own, and minus signs that are no hyphens."""
    return MINUS.sub("$-$", "".join(SPECIAL.get(letter, letter) for letter in text))


# --------------------------------------------------------------------------------------------------------------------
# How well the global model serves each client, by the client's name.

MOST_CLIENTS = 20


def clients_table(histories: Sequence[History]) -> Group | None:
    """Make a table of the latest accuracy of each client, a column for each method, the client that fares worst with
    the first method above; None where that was not measured."""
    known = [history for history in histories if history.clients]
    if not known:
        return None
    first = known[0].clients
    names = sorted(first, key=lambda name: finite([first[name], 2.0])[0])
    most = min(MOST_CLIENTS, len(names))
    shown = [names[round(place * (len(names) - 1) / max(1, most - 1))] for place in range(most)]
    data = "training data" if known[0].metrics.get("per_client", "").endswith(ON_TRAINING) else "own test data"
    some = f"; {MOST_CLIENTS} of {len(names):,}, evenly chosen" if len(names) > MOST_CLIENTS else ""
    drawn = plain_table(["client", *(history.name for history in known)], left=["client"])
    for column in drawn.columns:
        column.no_wrap, column.overflow = False, "fold"
    for name in shown:
        drawn.add_row(Text(name), *(percent(history.clients.get(name)) for history in known))
    return Group(Text(f"accuracy of each client on its {data}, at the latest evaluation{some}"), drawn)
