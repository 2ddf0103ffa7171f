"""Names of methods where room is short: broken after + or a comma, never inside a word."""

from __future__ import annotations

import re

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

WIDE = 1_000  # characters: wider than any table


def parts_of(name: str) -> list[str]:
    """The methods that a combination is made of.

    >>> parts_of("fedprox(mu=1e+20)+smofi")
    ['fedprox(mu=1e+20)', 'smofi']
    """
    return re.split(r"\+(?=[A-Za-z_])", name)


def pieces_of(name: str) -> list[str]:
    """What stays on one line.

    >>> pieces_of("fedavgm(lr=1.0, momentum=0.9)+smofi")
    ['fedavgm(lr=1.0, ', 'momentum=0.9)+', 'smofi']
    """
    return re.split(r"(?<=\+)(?=[A-Za-z_])|(?<=, )", name)


def folded(name: str, width: int) -> list[str]:
    """The name in lines of at most this width, if need be broken after an opening bracket too.

    >>> folded("fedavgm(lr=1.0, momentum=0.9)+smofi", 20), folded("smofi(alpha=-1)", 12)
    (['fedavgm(lr=1.0,', 'momentum=0.9)+smofi'], ['smofi(', 'alpha=-1)'])
    """
    lines = [""]
    for piece in pieces_of(name):
        for part in [piece] if len(piece.rstrip()) <= width else re.split(r"(?<=\()", piece):
            if lines[-1] and len(lines[-1] + part.rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return [line.rstrip() for line in lines]


def narrowest(name: str) -> int:
    """What the name takes at least."""
    return max(map(len, folded(name, 1)))


class Name:
    """A method's name for a cell of a table.

    >>> table = Table("method", box=None)
    >>> table.add_row(Name("fedprox(mu=0.01)+smofi(alpha=-0.5)"))
    >>> console = Console(width=20, color_system=None)
    >>> with console.capture() as captured: console.print(table)
    >>> [line.strip() for line in captured.get().splitlines()]
    ['method', 'fedprox(mu=0.01)+', 'smofi(alpha=-0.5)']
    """

    def __init__(self, name: str, style: str = "") -> None:
        self.name, self.style = name, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(folded(self.name, options.max_width)), style=self.style, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(narrowest(self.name), len(self.name)).with_maximum(options.max_width)


class NamesTable(Table):
    """A table with a `Name` first in each row. Figures stay on one line, headings wrap between words, and the room that
    is left goes to the names first. Where there is none, the lines between columns go, then the wider gaps, and at last
    figures are broken at spaces, so that headings stay whole."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide, lines, padding = options.update_width(WIDE), self.box, self.padding
        names, *others = (measure_renderables(console, wide, list(column.cells)) for column in self.columns)
        headings = [Measurement.get(console, wide, column.header) for column in self.columns]
        cells = [names.minimum, *(size.maximum for size in others)]
        least = [max(size, heading.minimum) for size, heading in zip(cells, headings, strict=True)]
        wished = [names.maximum, *(heading.maximum for heading in headings[1:])]
        for column, low in zip(self.columns, least, strict=True):
            column.width = low
        if (left := self._room(console, options)) < 0:
            self.box = None
            left = self._room(console, options)
        if left < 0:
            self.padding = (0, 1, 0, 0)
            left = self._room(console, options)
        if left < 0:
            broken = [names.minimum, *(size.minimum for size in others)]
            least = [max(size, heading.minimum) for size, heading in zip(broken, headings, strict=True)]
            for column, low in zip(self.columns, least, strict=True):
                column.width = low
            left = self._room(console, options)
            wished = cells
        for column, low, high in zip(self.columns, least, wished, strict=True):
            more = max(0, min(high - low, left))
            column.width, left = low + more, left - more
        yield from super().__rich_console__(console, options)
        self.box, self.padding = lines, padding
        for column in self.columns:
            column.width = None

    def _room(self, console: Console, options: ConsoleOptions) -> int:
        """Characters that are left, with columns as wide as they are."""
        return options.max_width - Measurement.get(console, options.update_width(WIDE), self).minimum
