"""How the clients' data differ: sizes, class mixes and their divergence from balance, in numbers, text and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.config import Config
from smofi.config.federation import Federation
from smofi.data.partitions import class_counts, divergence
from smofi.errors import check_count, refuse
from smofi.plural import between, plural
from smofi.report.canvas import can_braille
from smofi.report.heading import put_heading, seeds_of, short
from smofi.report.numbers import figure, median_count, one_decimal, two_decimals
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, DIM, FAINT, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# What a partition is like, in numbers.


# Told apart by colour-blind readers too, on light and on dark: Okabe and Ito's palette, and three between its hues.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#8F6BC4", "#F0E442", "#8A8A8A", "#8B5E3C",
)  # fmt: skip


def title_of(config: Config) -> str:
    """What is divided, and how.

    >>> title_of(Config(clients=4, seeds="0-2", partition="iid"))
    'digits, iid, 4 clients, seeds 0-2'
    """
    clients = plural(config.known_clients, "client")
    return f"{short(config.data)}, {short(config.partition)}, {clients}, {seeds_of(config)}"


@dataclass(frozen=True)
class ClassGroup:
    """Neighbouring classes that share a colour; a single class if there are colours for all."""

    name: str
    classes: slice
    colour: str


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """How many samples of each class each client has, `[clients, classes]`, with a title, the names of the classes, and
    those of the clients where they have any.

    >>> about = Heterogeneity("two clients", np.array([[5, 5], [30, 0]]), ["cat", "dog"], batch_size=16)
    >>> about.sizes.tolist(), about.below_batch, about.classes_per_client.tolist()
    ([10, 30], 1, [2, 1])
    """

    title: str
    counts: npt.NDArray[np.int64]
    class_names: Sequence[str]
    batch_size: int
    remarks: Sequence[str] = ()
    client_names: Sequence[str] = ()

    @classmethod
    def of(cls, config: Config, federation: Federation) -> Heterogeneity:
        """How a configuration divides its data."""
        source = federation.source
        shape = " x ".join(map(str, source.input_shape))
        return cls(
            title_of(config),
            class_counts(source.train.labels, federation.indices, source.classes),
            source.class_names,
            config.batch_size,
            [f"shape of a sample: {shape}; test samples: {len(federation.test):,}", *source.remarks],
            federation.client_names,
        )

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        shape, kind = np.shape(self.counts), np.asarray(self.counts).dtype.kind
        if len(shape) != 2 or 0 in shape or kind not in "iu" or np.min(self.counts) < 0 or not np.max(self.counts):
            refuse("counts", f"shape {shape}", "numbers of samples, not all of them 0, of shape [clients, classes]")
        if len(self.class_names) != shape[1]:
            refuse("class_names", f"{len(self.class_names)} names", f"a name for each of the {shape[1]} classes")

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The samples of each client."""
        sizes: npt.NDArray[np.int64] = self.counts.sum(axis=1)
        return sizes

    @cached_property
    def divergences(self) -> npt.NDArray[np.float64]:
        """Each client's Jensen-Shannon divergence from balance; NaN for a client without samples."""
        return divergence(self.counts)

    @property
    def classes_per_client(self) -> npt.NDArray[np.int64]:
        """How many classes each client has samples of."""
        classes: npt.NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return classes

    @property
    def below_batch(self) -> int:
        """The clients that cannot fill one batch, and so never train."""
        return int((self.sizes < self.batch_size).sum())

    @property
    def by_size(self) -> npt.NDArray[np.int64]:
        """The clients, largest first; equal ones in their order."""
        return np.argsort(-self.sizes, kind="stable")

    def name_of(self, client: int) -> str:
        """A client's name, or else its number."""
        return self.client_names[client] if self.client_names else f"{client:,}"

    def groups(self) -> list[ClassGroup]:
        """A colour per class; where the colours do not suffice, per stretch of classes.

        >>> many = Heterogeneity("many", np.ones((1, 35), dtype=int), [str(i) for i in range(35)], batch_size=1)
        >>> [group.name for group in many.groups()][:3]
        ['0 to 3', '4 to 7', '8 to 11']
        """
        stretches = np.array_split(np.arange(len(self.class_names)), min(len(self.class_names), len(PALETTE)))
        ends = [(int(stretch[0]), int(stretch[-1])) for stretch in stretches]
        names = [self.class_names[low] + (f" to {self.class_names[high]}" if high > low else "") for low, high in ends]
        return [
            ClassGroup(name, slice(low, high + 1), colour)
            for name, (low, high), colour in zip(names, ends, PALETTE, strict=False)
        ]

    def grouped(self) -> npt.NDArray[np.int64]:
        """The counts by group, `[clients, groups]`."""
        return np.stack([self.counts[:, group.classes].sum(axis=1) for group in self.groups()], axis=1)

    def summary(self) -> list[str]:
        """The partition in three sentences.

        >>> Heterogeneity("one", np.array([[5, 5]]), ["a", "b"], batch_size=4).summary()[0]
        '1 client, 10 samples: 10 each, median 10; none has less than a batch of 4'
        """
        sizes, classes, known = self.sizes, self.classes_per_client, self.divergences[self.sizes > 0]
        below = f"{self.below_batch:,} have" if self.below_batch > 1 else "1 has" if self.below_batch else "none has"
        return [
            f"{plural(len(sizes), 'client')}, {plural(int(sizes.sum()), 'sample')}: "
            f"{between(int(sizes.min()), int(sizes.max()))} each, median {median_count(float(np.median(sizes)))}; "
            f"{below} less than a batch of {self.batch_size:,}",
            f"classes per client: {between(int(classes.min()), int(classes.max()))} of {len(self.class_names):,}, "
            f"{one_decimal(classes.mean())} on average",
            f"divergence from balance (Jensen-Shannon, 0 to 1): {two_decimals(known.mean())} on average, "
            f"{two_decimals(known.min())} to {two_decimals(known.max())}",
        ]


# --------------------------------------------------------------------------------------------------------------------
# The picture of a partition for the terminal.

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


# --------------------------------------------------------------------------------------------------------------------
# How much a partition depends on the seed: a row for each, and the spread over all of them.

HEADINGS = ("smallest", "median", "largest", "below a batch", "classes", "divergence")
LEGEND = (
    "Smallest, median and largest: samples of a client. Below a batch: clients with fewer samples than that. Classes "
    "of a client, and divergence from balance (Jensen-Shannon, 0 to 1): means over clients. ±: the standard deviation "
    "over seeds."
)


def seeds_table(title: str, divisions: Mapping[int, Heterogeneity]) -> RenderableType:
    """Divisions of the same data, each with its seed."""
    rows = {str(seed): numbers(about) for seed, about in divisions.items()}
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("seed", *HEADINGS):
        drawn.add_column(Text(heading, style=DIM), justify="right")
    for seed, values in rows.items():
        drawn.add_row(seed, *(_shown(value) for value in values))
    columns = list(zip(*rows.values(), strict=True))
    drawn.add_row("mean", *(_shown(fmean(column)) for column in columns))
    drawn.add_row("±", *(figure(stdev(column)) for column in columns))
    return Group(Text(title, style="bold"), drawn, Text(LEGEND, style=DIM))


def numbers(about: Heterogeneity) -> tuple[float, ...]:
    """A division in one line, as the headings say.

    >>> numbers(Heterogeneity("two", np.array([[5, 5], [30, 0]]), ["cat", "dog"], batch_size=16))[:5]
    (10.0, 20.0, 30.0, 1.0, 1.5)
    """
    sizes, known = about.sizes, about.divergences[about.sizes > 0]
    ends = float(sizes.min()), float(np.median(sizes)), float(sizes.max())
    return (*ends, float(about.below_batch), float(about.classes_per_client.mean()), float(known.mean()))


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and value >= 1 else figure(value)


# --------------------------------------------------------------------------------------------------------------------
# The picture of a partition as a file, PNG, SVG or PDF by its suffix.

SHADES = ("#ffffff", "#56B4E9", "#0072B2", "#002a42")
LONGEST_DRAWN_NAME = 16
NAMED = 20  # up to this number of classes or clients, their names fit beside a heat map or below bars
ABREAST = 5  # up to this number of clients, their names fit beside each other
STACKED = 200  # up to this number of clients, stacked colours can be told apart
APART = 60  # up to this number of clients, a gap tells bars apart
UNEVEN = 30  # a logarithmic axis is better where the largest client has more than this many times the smallest


def save_heterogeneity(path: str | Path, about: Heterogeneity) -> Path:
    """Sizes, class mixes, and size against divergence, in one picture; the same partition gives the same bytes.

    >>> import tempfile
    >>> about = Heterogeneity("two", np.array([[6, 2], [4, 0]]), ["cat", "dog"], batch_size=4)
    >>> save_heterogeneity(Path(tempfile.mkdtemp()) / "two.svg", about).name
    'two.svg'
    """
    return save_picture(path, lambda figure: _compose(figure, about))


def _compose(figure: Figure, about: Heterogeneity) -> None:
    panels = figure.subplot_mosaic([["sizes", "scatter"], ["mix", "scatter"]], width_ratios=[1.75, 1])
    put_heading(figure, about.title)
    _sizes(panels["sizes"], about)
    readable = len(about.class_names) <= len(PALETTE) and len(about.sizes) <= STACKED
    (_stacked if readable else _heat)(panels["mix"], about)
    _scatter(panels["scatter"], about)
    for name, heading in (
        ("sizes", "samples per client"),
        ("mix", "class mix"),
        ("scatter", "divergence from balance, by samples"),
    ):
        panels[name].set_title(heading, loc="left", fontsize=11, color=FAINT)
        panels[name].spines[["top", "right"]].set_visible(False)
        panels[name].tick_params(which="both", length=0, pad=5)


def _sizes(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    sizes = about.sizes[about.by_size]
    axes.stairs(sizes, fill=True, color=COLOURS[4])
    axes.stairs(np.where(sizes < about.batch_size, sizes, 0), fill=True, color=COLOURS[1])
    axes.axhline(about.batch_size, color=COLOURS[1], linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    _beside(axes, "one batch", about.batch_size, COLOURS[1])
    axes.set_ylim(0, max(int(sizes.max()), about.batch_size) * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _across(axes, len(sizes))
    if about.client_names and len(sizes) <= NAMED:
        names = [_short(about.name_of(client)) for client in about.by_size.tolist()]
        places = np.arange(len(names)) + 0.5
        if len(names) <= ABREAST:
            axes.set_xticks(places, names, parse_math=False)
        else:
            axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor", parse_math=False)


def _stacked(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.patches import Patch
    from matplotlib.ticker import PercentFormatter

    groups, counts = about.groups(), about.grouped()[about.by_size]
    tops = np.cumsum(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), axis=1)
    bottom = np.zeros(len(tops))
    for group, top in zip(groups, tops.T, strict=True):
        axes.stairs(top, baseline=bottom, fill=True, color=group.colour, linewidth=0)
        bottom = top
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("clients, largest first")
    _across(axes, len(tops))
    names = [_short(group.name) for group in groups]
    legend = axes.legend(
        handles=[Patch(color=group.colour, label=name) for group, name in zip(groups, names, strict=True)],
        loc="upper left",
        bbox_to_anchor=(0.0, -0.16),
        ncols=len(names) if sum(map(len, names)) <= 40 else 5,
        frameon=False,
        borderpad=0,
        handlelength=1,
        handleheight=1,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _heat(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.ticker import PercentFormatter

    counts = about.counts[about.by_size]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    largest = float(shares.max())
    drawn = axes.imshow(
        shares.T,
        aspect="auto",
        extent=(0, len(counts), len(about.class_names), 0),
        cmap=LinearSegmentedColormap.from_list("share", SHADES),
        norm=PowerNorm(0.5, vmin=0, vmax=largest),  # most shares are small
        interpolation="nearest",
    )
    if len(about.class_names) <= NAMED:
        names = [_short(name) for name in about.class_names]
        axes.set_yticks(np.arange(len(names)) + 0.5, names, parse_math=False)
    else:
        axes.set_ylabel("class")
    axes.set_xlabel("clients, largest first")
    axes.set_xlim(0, len(counts))
    axes.set_xticks([])
    bar = axes.figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=40)
    bar.set_ticks([largest * (quarter / 4) ** 2 for quarter in range(5)])
    bar.ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    bar.ax.tick_params(length=0)
    bar.set_label("share of the client's samples")
    bar.outline.set_visible(False)


def _scatter(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    not_empty = about.sizes > 0
    sizes, divergences = about.sizes[not_empty], about.divergences[not_empty]
    axes.scatter(
        sizes, divergences, s=36 if len(sizes) <= 200 else 12, color=COLOURS[0], alpha=0.55, linewidths=0, clip_on=False
    )
    highest = max(0.05, 1.1 * float(divergences.max()))
    single = float(divergence([[1] + [0] * (len(about.class_names) - 1)])[0])
    if 0 < single < highest:
        axes.axhline(single, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _beside(axes, "one\nclass", single, FAINT)
    if sizes.max() > UNEVEN * sizes.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if sizes.max() > 300 * sizes.min() else (1, 3)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(0, highest)
    axes.set_xlabel("samples")
    axes.set_ylabel("Jensen-Shannon divergence, bits")
    axes.grid(color=GRID, linewidth=1)
    axes.set_axisbelow(True)


def _across(axes: Axes, clients: int) -> None:
    """A place for each client, with gaps between bars that are wide enough."""
    axes.set_xlim(0, clients)
    axes.set_xticks([])
    if clients <= APART:
        for edge in range(1, clients):
            axes.axvline(edge, color="white", linewidth=1.2)


def _beside(axes: Axes, text: str, height: float, colour: str) -> None:
    """Name a horizontal line at its right end."""
    coordinates = axes.get_yaxis_transform()
    axes.annotate(text, (1.0, height), (5, 0), coordinates, "offset points", color=colour, va="center", fontsize=10)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_DRAWN_NAME else f"{name[: LONGEST_DRAWN_NAME - 1]}…"
