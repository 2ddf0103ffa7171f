"""The table in LaTeX, with booktabs, deviations in small print and the best in bold, as in the paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from smofi.report.comparing.formats import MADE
from smofi.report.comparing.sheets import Cell, Line, Sheet

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
    return "\n".join([rf"% {MADE}. It needs \usepackage{{booktabs}}.", *map(_table, tables)])


def _table(sheets: Sequence[Sheet]) -> str:
    columns = sheets[0].columns
    head = " & ".join(rf"\textbf{{{HEADINGS.get(one) or _plain(one)}}}" for one in ("method", *columns))
    lines = [f"% {' '.join(note.split())}" for sheet in sheets for note in sheet.notes]
    lines += [r"\begin{table}[t]", r"\centering", rf"\caption{{{_caption(sheets)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", rf"{head} \\"]
    for sheet in sheets:
        lines.append(r"\midrule")
        if sheet.title:
            lines += [rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{\textit{{{_plain(sheet.title)}}}}} \\", r"\midrule"]
        for number, group in enumerate(sheet.groups):
            lines += [r"\midrule"] * (number > 0)
            lines += [_row(line) for line in group]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _caption(sheets: Sequence[Sheet]) -> str:
    """What the numbers are, with the headings that the paper has."""
    text = " ".join(_plain(about) for about in dict.fromkeys(sheet.about for sheet in sheets))
    return text.replace("The speed-up is", r"R is the rounds to the target, R$\uparrow$ the speed-up:")


def _row(line: Line) -> str:
    return " & ".join([_plain(line.title), *map(_cell, line.cells)]) + r" \\"


def _cell(cell: Cell) -> str:
    r"""
    >>> print(_cell(Cell("81.82", "0.61", best=True)), _cell(Cell("4.61x")), _cell(Cell(">40")))
    \textbf{81.82{\scriptsize$\pm$0.61}} 4.61$\times$ $>$40
    """
    number = cell.text[:-1] + r"$\times$" if cell.text.endswith("x") and cell.text[:1].isdigit() else _plain(cell.text)
    text = number + (rf"{{\scriptsize$\pm${cell.spread}}}" if cell.spread else "")
    return rf"\textbf{{{text}}}" if cell.best else text


def _plain(text: str) -> str:
    r"""Text with the characters that LaTeX takes for its own, and minus signs that are no hyphens.

    >>> print(_plain("50% of a_b"), _plain("-1.50 [-2, +1]"), _plain("cut 1-2, 5e-4"))
    50\% of a\_b $-$1.50 [$-$2, +1] cut 1-2, 5e-4
    """
    return MINUS.sub("$-$", "".join(SPECIAL.get(letter, letter) for letter in text))
