"""Write a table for the terminal, as CSV, Markdown or LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.report.comparing.blocks import Block, Cell, Difference, Line, Sheet, differences_sheet, results_sheet
from smofi.report.comparing.formats import MADE
from smofi.report.names import Name, NamesTable

# --------------------------------------------------------------------------------------------------------------------
# The table for the terminal.


def as_text(sheets: Sequence[Sheet]) -> RenderableType:
    """All sheets below each other, with what is said of each."""
    parts: list[RenderableType] = []
    for sheet in sheets:
        parts += [_table(sheet), *(Text(note, style="dim") for note in (sheet.about, *sheet.notes) if note), Text("")]
    return Group(*parts[:-1])


def _table(sheet: Sheet) -> Table:
    drawn = NamesTable(title=Text(sheet.title), title_justify="left")
    drawn.add_column("method")
    for heading in sheet.columns:
        drawn.add_column(Text(heading), justify="right")
    for group in sheet.groups:
        for line in group:
            drawn.add_row(Name(line.name), *_cells(line), end_section=line is group[-1])
    return drawn


def _cells(line: Line) -> list[Text]:
    return [Text(str(cell), style="bold" if cell.best else "") for cell in line.cells]


# --------------------------------------------------------------------------------------------------------------------
# The table for programs: plain numbers, accuracies between 0 and 1, nothing where there is no number.

ROW = ("seeds", "best", "best_std", "mean", "mean_std", "rounds", "rounds_std", "budget", "speed_up")
RUN = ("best", "mean", "target", "rounds", "budget", "hours_to", "hours", "seconds")
TIMES = ("hours_to", "hours_to_std", "hours", "seconds")


def as_csv(blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """A row for each method of each setup, or for each run; settings that differ between setups have columns."""
    rows = [row for block in blocks for row in (_runs(block) if per_seed else _methods(block))]
    names = dict.fromkeys(name for row in rows for name in row)
    written = io.StringIO()
    writer = csv.DictWriter(written, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _methods(block: Block) -> Iterable[Mapping[str, Any]]:
    for base, names in block.groups:
        for name in names:
            row, gain = block.rows.get(name), block.paired.get(name)
            yield {
                **_setup(block),
                "method": name,
                "bare_base": base,
                **{one: getattr(row, one) if row else None for one in ROW},
                "target": row.target if row else None,
                **{one: getattr(row, one) if row else None for one in TIMES},
                "compared_with": gain.base if gain else None,
                "pairs": len(gain.seeds) if gain else None,
                **_difference("mean", gain.mean if gain else None),
                **_difference("best", gain.best if gain else None),
                "complete": name not in block.incomplete,
            }


def _runs(block: Block) -> Iterable[Mapping[str, Any]]:
    """The runs that count."""
    folders = {(run.method, run.config.seed): run.path for run in (block.setup.runs if block.setup else ())}
    for base, names in block.groups:
        for name in names:
            for seed, rows in block.by_seed.items():
                for row in (one for one in rows if one.name == name):
                    yield {
                        **_setup(block),
                        "method": name,
                        "bare_base": base,
                        "seed": seed,
                        **{one: getattr(row, one) for one in RUN},
                        "folder": folders.get((name, seed)),
                    }


def _setup(block: Block) -> dict[str, Any]:
    return {"setup": block.name, **(block.setup.settings if block.setup else {})}


def _difference(name: str, one: Difference | None) -> dict[str, float | None]:
    mean, low, high = one or (None, None, None)
    return {f"{name}_gain": mean, f"{name}_gain_low": low, f"{name}_gain_high": high}


def _plain(value: Any) -> Any:
    """Numbers as short as they can be without loss; a target that does not exist is left empty."""
    if isinstance(value, float):
        return "" if math.isinf(value) else f"{value:.10g}"
    return "" if value is None else value


# --------------------------------------------------------------------------------------------------------------------
# The table in Markdown.


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Every sheet as a table with pipes, its title as a heading.

    >>> from smofi.report.comparing.blocks import Line
    >>> print(as_markdown([Sheet("", ["seeds"], [[Line("smofi", "SMoFi", [Cell("3", best=True)])]])]), end="")
    | method | seeds |
    |---|---:|
    | SMoFi | **3** |
    """
    return "\n".join(_markdown_table(sheet) for sheet in sheets)


def _markdown_table(sheet: Sheet) -> str:
    lines = [f"**{_markdown_text(sheet.title)}**", ""] if sheet.title else []
    lines += [_row(["method", *sheet.columns]), "|---|" + "---:|" * len(sheet.columns)]
    lines += [_row([_markdown_text(line.title), *map(_cell, line.cells)]) for group in sheet.groups for line in group]
    for note in filter(None, (sheet.about, *sheet.notes)):
        lines += ["", _markdown_text(note)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = _markdown_text(str(cell))
    return f"**{text}**" if cell.best else text


def _markdown_text(text: str) -> str:
    """Text that is not taken for markup.

    >>> _markdown_text("a|b_c*")
    'a\\\\|b\\\\_c\\\\*'
    """
    return re.sub(r"([|*_`<\[\]])", r"\\\1", text)


# --------------------------------------------------------------------------------------------------------------------
# The table in LaTeX, with booktabs, deviations in small print and the best in bold, as in the paper.

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
    """Sheets with the same columns that follow each other become one table, setup below setup. What is wrong with some
    numbers stands in comments above it."""
    tables = [list(same) for _, same in groupby(sheets, key=lambda sheet: sheet.columns)]
    return "\n".join([rf"% {MADE}. It needs \usepackage{{booktabs}}.", *map(_latex_table, tables)])


def _latex_table(sheets: Sequence[Sheet]) -> str:
    columns = sheets[0].columns
    head = " & ".join(rf"\textbf{{{HEADINGS.get(one) or _latex_text(one)}}}" for one in ("method", *columns))
    lines = [f"% {' '.join(note.split())}" for sheet in sheets for note in sheet.notes]
    lines += [r"\begin{table}[t]", r"\centering", rf"\caption{{{_caption(sheets)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", rf"{head} \\"]
    for sheet in sheets:
        lines.append(r"\midrule")
        if sheet.title:
            lines += [
                rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{\textit{{{_latex_text(sheet.title)}}}}} \\",
                r"\midrule",
            ]
        for number, group in enumerate(sheet.groups):
            lines += [r"\midrule"] * (number > 0)
            lines += [_latex_row(line) for line in group]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _caption(sheets: Sequence[Sheet]) -> str:
    """What the numbers are, with the headings that the paper has."""
    text = " ".join(_latex_text(about) for about in dict.fromkeys(sheet.about for sheet in sheets))
    return text.replace("The speed-up is", r"R is the rounds to the target, R$\uparrow$ the speed-up:")


def _latex_row(line: Line) -> str:
    return " & ".join([_latex_text(line.title), *map(_latex_cell, line.cells)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    r"""
    >>> print(_latex_cell(Cell("81.82", "0.61", best=True)), _latex_cell(Cell("4.61x")), _latex_cell(Cell(">40")))
    \textbf{81.82{\scriptsize$\pm$0.61}} 4.61$\times$ $>$40
    """
    number = (
        cell.text[:-1] + r"$\times$" if cell.text.endswith("x") and cell.text[:1].isdigit() else _latex_text(cell.text)
    )
    text = number + (rf"{{\scriptsize$\pm${cell.spread}}}" if cell.spread else "")
    return rf"\textbf{{{text}}}" if cell.best else text


def _latex_text(text: str) -> str:
    r"""Text with the characters that LaTeX takes for its own, and minus signs that are no hyphens.

    >>> print(_latex_text("50% of a_b"), _latex_text("-1.50 [-2, +1]"), _latex_text("cut 1-2, 5e-4"))
    50\% of a\_b $-$1.50 [$-$2, +1] cut 1-2, 5e-4
    """
    return MINUS.sub("$-$", "".join(SPECIAL.get(letter, letter) for letter in text))


# --------------------------------------------------------------------------------------------------------------------
# Blocks in one of the formats.


def sheets_of(blocks: Sequence[Block]) -> list[Sheet]:
    """The results of every setup, then the differences in every setup."""
    differences = [differences_sheet(block) for block in blocks]
    return [*map(results_sheet, blocks), *(sheet for sheet in differences if sheet is not None)]


def written_as(form: str, blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """The whole table as the content of a file: Markdown, LaTeX or CSV."""
    if form == "csv":
        return as_csv(blocks, per_seed=per_seed)
    if form == "latex":
        return as_latex(sheets_of(blocks))
    return f"<!-- {MADE} -->\n\n{as_markdown(sheets_of(blocks))}"
