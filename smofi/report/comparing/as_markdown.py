"""The table in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from smofi.report.comparing.sheets import Cell, Sheet


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Every sheet as a table with pipes, its title as a heading.

    >>> from smofi.report.comparing.sheets import Line
    >>> print(as_markdown([Sheet("", ["seeds"], [[Line("smofi", "SMoFi", [Cell("3", best=True)])]])]), end="")
    | method | seeds |
    |---|---:|
    | SMoFi | **3** |
    """
    return "\n".join(_table(sheet) for sheet in sheets)


def _table(sheet: Sheet) -> str:
    lines = [f"**{_plain(sheet.title)}**", ""] if sheet.title else []
    lines += [_row(["method", *sheet.columns]), "|---|" + "---:|" * len(sheet.columns)]
    lines += [_row([_plain(line.title), *map(_cell, line.cells)]) for group in sheet.groups for line in group]
    for note in filter(None, (sheet.about, *sheet.notes)):
        lines += ["", _plain(note)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = _plain(str(cell))
    return f"**{text}**" if cell.best else text


def _plain(text: str) -> str:
    """Text that is not taken for markup.

    >>> _plain("a|b_c*")
    'a\\\\|b\\\\_c\\\\*'
    """
    return re.sub(r"([|*_`<\[\]])", r"\\\1", text)
