"""Names of methods where room is short: broken after + or a comma, never inside a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from smofi.errors import InputError
from smofi.methods import bare_base
from smofi.spec import Call, read_calls

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


# --------------------------------------------------------------------------------------------------------------------
# What methods are called in tables and figures: as their papers write them, with parameters only where two methods
# differ in nothing else.

WRITTEN = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fednar": "FedNAR",
    "clip": "Clipping",
    "fedavgm": "FedAvgM",
    "slowmo": "SlowMo",
    "fednag": "FedNAG",
    "smofi": "SMoFi",
    "sflv1": "SFLV1",
    "sflv2": "SFLV2",
    "mergesfl": "MergeSFL",
}
PLAIN = "fedavg"
NUMBER = re.compile(r"(?<=[=(, ])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SPLIT = ("sflv1", "sflv2", "mergesfl")
"""Methods that stand for themselves and are no plugin of a base."""


def titles(names: Sequence[str]) -> dict[str, str]:
    """A title for each of these methods.

    >>> list(titles(["fedavg", "fedprox(mu=0.01)+smofi"]).values())
    ['FedAvg', 'FedProx + SMoFi']
    >>> list(titles(["smofi(alpha=-1, global_momentum=0.3)", "smofi(global_momentum=0.3)"]).values())
    ['SMoFi (alpha=-1)', 'SMoFi']
    """
    parts = {name: _parts(name) for name in names}
    found = {}
    for name, own in parts.items():
        alike = [other for other in parts.values() if [call.name for call in other] == [call.name for call in own]]
        shared = [set.intersection(*(set(_given(other[place])) for other in alike)) for place in range(len(own))]
        found[name] = " + ".join(
            _title(call, [one for one in _given(call) if one not in common])
            for call, common in zip(own, shared, strict=True)
        )
    return found


def rows_by_base(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The methods grouped by their bare base, as the paper's table has them: FedAvg's first, the base on top.

    >>> rows_by_base(["fednar+smofi", "smofi", "fednar", "fedavg"])
    [('fedavg', ['fedavg', 'smofi']), ('fednar', ['fednar', 'fednar+smofi'])]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(bare_base(name), []).append(name)
    order = sorted(groups, key=lambda base: base != PLAIN)
    return [(base, sorted(groups[base], key=_place)) for base in order]


def _place(name: str) -> tuple[int, list[str], list[float]]:
    """Where a method stands below its base: the base first, then ours as in `WRITTEN`, then others; those that differ
    in their numbers alone by these.

    >>> sorted(["smofi(alpha=-1)", "smofi(alpha=-10)", "fedavg", "smofi(alpha=-5)", "fedavgm"], key=_place)
    ['fedavg', 'fedavgm', 'smofi(alpha=-10)', 'smofi(alpha=-5)', 'smofi(alpha=-1)']
    """
    added = [part.partition("(")[0] for part in plugins_of(name)]
    known = list(WRITTEN)
    place = known.index(added[0]) if added and added[0] in known else len(known) * bool(added)
    return place, NUMBER.split(name), [float(number) for number in NUMBER.findall(name)]


def label(name: str, title: str) -> str:
    """A method in a group below its base: a plugin has a plus.

    >>> label("fedprox(mu=0.1)+smofi", "FedProx + SMoFi"), label("slowmo", "SlowMo"), label("sflv2", "SFLV2")
    ('+ SMoFi', '+ SlowMo', 'SFLV2')
    """
    added = plugins_of(name)
    if not added or _parts(name)[0].name in SPLIT:
        return title
    called = zip(parts_of(name), title.split(" + "), strict=True)
    return " ".join(f"+ {words}" for part, words in called if part in added)


def plugins_of(name: str) -> list[str]:
    """What is added to the bare base; nothing if that is all.

    >>> plugins_of("fedprox(mu=0.1)+smofi"), plugins_of("fedprox(mu=0.1)"), plugins_of("slowmo")
    (['smofi'], [], ['slowmo'])
    """
    return [part for part in parts_of(name) if part != PLAIN and bare_base(part) == PLAIN]


def _parts(name: str) -> list[Call]:
    try:
        return read_calls("method", name, "smofi")
    except InputError:  # not a method, but the name that a curve was given
        return [Call(name)]


def _given(call: Call) -> list[str]:
    return [*map(str, call.args), *(f"{key}={value}" for key, value in call.kwargs)]


def _title(call: Call, parameters: Sequence[str]) -> str:
    written = WRITTEN.get(call.name, call.name)
    return f"{written} ({', '.join(parameters)})" if parameters else written
