"""A table of texts, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import HORIZONTALS
from rich.table import Table
from rich.text import Text

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
