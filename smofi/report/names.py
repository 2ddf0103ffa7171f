"""Name methods, data and settings: short where room is short, or as papers write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from smofi.config import Config
from smofi.config.definition import seeds_text
from smofi.errors import InputError
from smofi.methods import bare_base
from smofi.plural import plural
from smofi.runs import Participant
from smofi.spec import Call, read_calls

# --------------------------------------------------------------------------------------------------------------------
# Names of methods where room is short: broken after + or a comma, never inside a word.

WIDE = 1_000  # characters: wider than any table


def parts_of(name: str) -> list[str]:
    return re.split(r"\+(?=[A-Za-z_])", name)


def pieces_of(name: str) -> list[str]:
    """Split a name into what stays on one line."""
    return re.split(r"(?<=\+)(?=[A-Za-z_])|(?<=, )", name)


def folded(name: str, width: int) -> list[str]:
    """Fold a name into lines of at most this width, if need be broken after an opening bracket too."""
    lines = [""]
    for piece in pieces_of(name):
        for part in [piece] if len(piece.rstrip()) <= width else re.split(r"(?<=\()", piece):
            if lines[-1] and len(lines[-1] + part.rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return [line.rstrip() for line in lines]


class Name:
    """A method's name for a cell of a table."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(folded(self.name, options.max_width)), overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        narrowest = max(map(len, folded(self.name, 1)))
        return Measurement(narrowest, len(self.name)).with_maximum(options.max_width)


class NamesTable(Table):
    """A table with a `Name` first in each row. Figures stay on one line, headings wrap between words, and the room that
    is left goes to the names first. Where there is none, the lines between columns go, then the wider gaps, and at last
    figures are broken at spaces."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide, lines, padding = options.update_width(WIDE), self.box, self.padding
        cells = [measure_renderables(console, wide, list(column.cells)) for column in self.columns]
        heads = [Measurement.get(console, wide, column.header) for column in self.columns]
        narrow = (0, 1, 0, 0)
        for box, gaps, whole in (
            (lines, padding, True),
            (None, padding, True),
            (None, narrow, True),
            (None, narrow, False),
        ):
            self.box, self.padding = box, gaps
            for number, (column, cell, head) in enumerate(zip(self.columns, cells, heads, strict=True)):
                column.width = max(cell.maximum if number and whole else cell.minimum, head.minimum)
            left = options.max_width - Measurement.get(console, wide, self).minimum
            if left >= 0:
                break
        for column, cell, head in zip(self.columns, cells, heads, strict=True):
            more = max(0, min(max(cell.maximum, head.maximum) - (column.width or 0), left))
            column.width, left = (column.width or 0) + more, left - more
        yield from super().__rich_console__(console, options)
        self.box, self.padding = lines, padding
        for column in self.columns:
            column.width = None


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
    """Give each of these methods a title."""

    def given(call: Call) -> list[str]:
        return [*map(str, call.args), *(f"{key}={value}" for key, value in call.kwargs)]

    def title(call: Call, parameters: Sequence[str]) -> str:
        return WRITTEN.get(call.name, call.name) + (f" ({', '.join(parameters)})" if parameters else "")

    parts, found = {name: _parts(name) for name in names}, {}
    for name, own in parts.items():
        alike = [other for other in parts.values() if [call.name for call in other] == [call.name for call in own]]
        shared = [set.intersection(*(set(given(other[place])) for other in alike)) for place in range(len(own))]
        found[name] = " + ".join(
            title(call, [one for one in given(call) if one not in common])
            for call, common in zip(own, shared, strict=True)
        )
    return found


def rows_by_base(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Group methods by their bare base, as the paper's table has them: FedAvg's first, the base on top, then ours as in
    `WRITTEN`, then others; those that differ in their numbers alone by these."""

    def place(name: str) -> tuple[int, list[str], list[float]]:
        added, known = [part.partition("(")[0] for part in plugins_of(name)], list(WRITTEN)
        first = known.index(added[0]) if added and added[0] in known else len(known) * bool(added)
        return first, NUMBER.split(name), [float(number) for number in NUMBER.findall(name)]

    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(bare_base(name), []).append(name)
    order = sorted(groups, key=lambda base: base != PLAIN)
    return [(base, sorted(groups[base], key=place)) for base in order]


def label(name: str, title: str) -> str:
    """Call a method in a group below its base: a plugin has a plus."""
    added = plugins_of(name)
    if not added or _parts(name)[0].name in SPLIT:
        return title
    called = zip(parts_of(name), title.split(" + "), strict=True)
    return " ".join(f"+ {words}" for part, words in called if part in added)


def plugins_of(name: str) -> list[str]:
    return [part for part in parts_of(name) if part != PLAIN and bare_base(part) == PLAIN]


def _parts(name: str) -> list[Call]:
    try:
        return read_calls("method", name, "smofi")
    except InputError:  # not a method, but the name that a curve was given
        return [Call(name)]


# --------------------------------------------------------------------------------------------------------------------
# What a run was, in the words that stand above tables and pictures.

LONGEST_CUT = 30


def setting(config: Config, served: Sequence[Participant] | None = None) -> str:
    """Name the data, who has it, and the model; of a served run, its clients."""
    divided = f"{clients_of(config)}, {short(config.partition)}" if served is None else own_data(served)
    return f"{short(config.data)}, {divided}, {config.model}"


def details(config: Config) -> str:
    """Say what it takes to draw the same again: the cut, the seed and the clock."""
    clock = "" if config.clock == "none" else f", clock {config.clock}"
    return f"cut {short_cut(config)}, {seeds_of(config)}{clock}"


def own_data(served: Sequence[Participant]) -> str:
    """Count the clients of a served run, each of which has brought its data."""
    samples = sum(one.samples for one in served)
    return f"{plural(len(served), 'client')} with {plural(samples, 'sample')} of their own"


def clients_of(config: Config) -> str:
    return "the data's own clients" if config.clients is None else plural(config.clients, "client")


def seeds_of(config: Config) -> str:
    return f"seeds {seeds_text(config.seeds)}" if config.seeds else f"seed {config.seed}"


def short_cut(config: Config) -> str:
    """Return the cut as it was written, if it is not a long list."""
    return config.cut if len(config.cut) <= LONGEST_CUT else "of each client"


def short(name: str) -> str:
    """Return a file's name without its folders."""
    scheme, colon, path = name.partition(":")
    return name if not colon or scheme == "python" else f"{scheme}:{PurePath(path).name}"
