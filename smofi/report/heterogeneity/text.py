"""The picture of a partition for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.report.canvas import can_braille
from smofi.report.heterogeneity.measures import PALETTE, Heterogeneity
from smofi.report.numbers import two_decimals
from smofi.report.style import DIM

MOST_ROWS, MOST_BINS, WIDEST, LONGEST_NAME = 40, 10, 100, 24
SYMBOLS = "0123456789"
BAR, SHORT = "cyan", "yellow"


def heterogeneity_table(about: Heterogeneity) -> RenderableType:
    """Sentences, a histogram of sizes, and a row per client, as wide and as colourful as the terminal is.

    >>> about = Heterogeneity("two", np.array([[6, 2], [4, 0]]), ["cat", "dog"], batch_size=4)
    >>> console = Console(width=80, color_system=None)
    >>> with console.capture() as captured: console.print(heterogeneity_table(about))
    >>> print(captured.get().splitlines()[0])
    two
    """
    return _PartitionTable(about)


class _PartitionTable:
    def __init__(self, about: Heterogeneity) -> None:
        self.about = about

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        about, encoding = self.about, options.encoding
        block = "█" if can_braille(encoding) else "#"
        coloured = console.color_system is not None and not console.no_color
        width = min(options.max_width, WIDEST)
        yield Text(showable(about.title, encoding), style="bold")
        for sentence in about.summary():
            yield Text(sentence)
        yield Text("")
        yield _histogram(about.sizes, block, width)
        yield Text("")
        yield _clients(about, block, coloured, width, encoding)
        if len(about.sizes) > MOST_ROWS:
            yield Text(f"{MOST_ROWS} of {len(about.sizes):,} clients, evenly spaced by size", style=DIM)
        if coloured or [group.name for group in about.groups()] != list(SYMBOLS[: len(about.class_names)]):
            yield _legend(about, block, coloured, encoding)


def _histogram(sizes: npt.NDArray[np.int64], block: str, width: int) -> Table:
    bins = size_bins(sizes)
    most = max(count for *_, count in bins)
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    drawn.add_column(Text("samples", style=DIM), justify="right", no_wrap=True)
    drawn.add_column(Text("clients", style=DIM), no_wrap=True)
    room = max(4, width - 30)
    for low, high, count in bins:
        label = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        drawn.add_row(label, Text.assemble((block * length(count, most, room), BAR), f" {count:,}"))
    return drawn


def _clients(about: Heterogeneity, block: str, coloured: bool, width: int, encoding: str) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    shown = chosen(about.by_size, MOST_ROWS).tolist()
    names = [_cut_short(showable(about.name_of(client), encoding), width // 4) for client in shown]
    room = width - 36 - max(6, *map(cell_len, names))  # what names, numbers and the spaces between take
    strip_width = max(10, min(40, room * 2 // 3))
    bar_width = max(0, min(20, room - strip_width))
    drawn.add_column(Text("client", style=DIM), justify="left" if about.client_names else "right", no_wrap=True)
    drawn.add_column(Text("samples", style=DIM), justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True, width=bar_width)
    for heading in ("classes", "divergence"):
        drawn.add_column(Text(heading, style=DIM), justify="right", no_wrap=True)
    drawn.add_column(Text("class mix", style=DIM), no_wrap=True)
    grouped, classes, largest = about.grouped(), about.classes_per_client, int(about.sizes.max())
    for client, name in zip(shown, names, strict=True):
        size, divergence = int(about.sizes[client]), float(about.divergences[client])
        drawn.add_row(
            Text(name),
            f"{size:,}",
            Text(block * length(size, largest, bar_width), style=BAR if size >= about.batch_size else SHORT),
            f"{classes[client]:,}",
            two_decimals(divergence),
            _strip(grouped[client].tolist(), strip_width, block, coloured),
        )
    return drawn


def _cut_short(name: str, most: int) -> str:
    """A name of at most this many characters, the last of them a dot if it is longer.

    >>> _cut_short("Sankt Gallen", 8)
    'Sankt G.'
    """
    return name if len(name) <= most else f"{name[: most - 1]}."


def _strip(counts: Sequence[int], width: int, block: str, coloured: bool) -> Text:
    pieces = zip(portions(counts, width), PALETTE, SYMBOLS, strict=False)
    return Text.assemble(*((block * cells, colour) if coloured else symbol * cells for cells, colour, symbol in pieces))


def _legend(about: Heterogeneity, block: str, coloured: bool, encoding: str) -> RenderableType:
    entries = [
        Text.assemble(
            (block * 2, group.colour) if coloured else f"{SYMBOLS[number]}:", " ", showable(group.name, encoding)
        )
        for number, group in enumerate(about.groups())
    ]
    for entry in entries:
        entry.truncate(LONGEST_NAME)
    return Columns(entries, padding=(0, 3))


def size_bins(sizes: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Bins of client sizes as (lowest, highest, clients): at most ten, 1, 2 or 5 times a power of ten wide.

    >>> size_bins(np.array([3, 8, 41]))
    [(0, 4, 1), (5, 9, 1), (10, 14, 0), (15, 19, 0), (20, 24, 0), (25, 29, 0), (30, 34, 0), (35, 39, 0), (40, 44, 1)]
    """
    low, high = int(sizes.min()), int(sizes.max())
    steps = (factor * 10**power for power in range(20) for factor in (1, 2, 5))
    step = next(step for step in steps if high // step - low // step < MOST_BINS)
    counts = np.bincount(sizes // step - low // step)
    starts = [(low // step + number) * step for number in range(len(counts))]
    return [(start, start + step - 1, int(count)) for start, count in zip(starts, counts, strict=True)]


def portions(counts: Sequence[int], width: int) -> list[int]:
    """Cells for each count, in proportion, `width` in all: the largest remainders are rounded up.

    >>> portions([3, 2, 0, 1], 10)
    [5, 3, 0, 2]
    """
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    cells = [count * width // total for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda number: -(counts[number] * width % total))
    for number in by_remainder[: width - sum(cells)]:
        cells[number] += 1
    return cells


def chosen(clients: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """All clients, or `most` of them at even distances, the first and the last included.

    >>> chosen(np.arange(100, 111), 3).tolist()
    [100, 105, 110]
    """
    if len(clients) <= most:
        return clients
    return clients[np.rint(np.linspace(0, len(clients) - 1, most)).astype(np.int64)]


def length(value: int, largest: int, width: int) -> int:
    """The length of a bar: in proportion, and at least 1 for a value above 0."""
    return max(min(1, value), round(value / largest * width)) if width else 0


def showable(name: str, encoding: str) -> str:
    """A name with a question mark for what the terminal cannot show, and for control characters.

    >>> showable("caf\\u00e9", "ascii")
    'caf?'
    """
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return printable.encode(encoding, "replace").decode(encoding)
