"""Show how clients differ, in data and in devices: in numbers, as text for the terminal, and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.clock import Device
from smofi.clock.devices import MEASURED_MACS, MILLISECOND, Phones, devices_for, read_phones
from smofi.config import Config
from smofi.config.federation import Federation
from smofi.data.partitions import class_counts, divergence
from smofi.data.source import Source
from smofi.errors import check_seed, shortened
from smofi.plural import between, plural
from smofi.report.curves import can_braille
from smofi.report.lists import outline
from smofi.report.names import seeds_of, short
from smofi.report.numbers import SECONDS, UNKNOWN, TimeUnit, count, figure, time_unit
from smofi.report.style import (
    COLOURS,
    DIM,
    FAINT,
    Drawing,
    plain_table,
    put_clients,
    put_dots,
    put_heading,
    put_level,
    put_title,
    scale_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

# --------------------------------------------------------------------------------------------------------------------
# What a partition is like, in numbers.

# Told apart by colour-blind readers too, on light and on dark: Okabe and Ito's palette, and three between its hues.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#8F6BC4", "#F0E442", "#8A8A8A", "#8B5E3C",
)  # fmt: skip


def title_of(config: Config) -> str:
    clients = plural(config.known_clients, "client")
    return f"{short(config.data)}, {short(config.partition)}, {clients}, {seeds_of(config)}"


class ClassGroup(NamedTuple):
    """Neighbouring classes that share a colour; a single class if there are colours for all."""

    name: str
    classes: slice
    colour: str


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """The samples of each class that each client has, `[clients, classes]`, with a title, and the names of the classes
    and of the clients where they have any."""

    title: str
    counts: npt.NDArray[np.int64]
    class_names: Sequence[str]
    batch_size: int
    remarks: Sequence[str] = ()
    client_names: Sequence[str] = ()

    @classmethod
    def of(cls, config: Config, federation: Federation) -> Heterogeneity:
        """Describe how a configuration divides its data."""
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

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        sizes: npt.NDArray[np.int64] = self.counts.sum(axis=1)
        return sizes

    @cached_property
    def divergences(self) -> Floats:
        """Each client's Jensen-Shannon divergence from balance; NaN for a client without samples."""
        return divergence(self.counts)

    @property
    def classes_per_client(self) -> npt.NDArray[np.int64]:
        classes: npt.NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return classes

    @property
    def below_batch(self) -> int:
        return int((self.sizes < self.batch_size).sum())

    @property
    def by_size(self) -> npt.NDArray[np.int64]:
        return np.argsort(-self.sizes, kind="stable")

    def name_of(self, client: int) -> str:
        return self.client_names[client] if self.client_names else f"{client:,}"

    def groups(self) -> list[ClassGroup]:
        """Give each class a colour; where the colours do not suffice, each stretch of classes."""
        names, groups = self.class_names, []
        stretches = np.array_split(np.arange(len(names)), min(len(names), len(PALETTE)))
        for stretch, colour in zip(stretches, PALETTE, strict=False):
            low, high = int(stretch[0]), int(stretch[-1])
            name = names[low] + (f" to {names[high]}" if high > low else "")
            groups.append(ClassGroup(name, slice(low, high + 1), colour))
        return groups

    def grouped(self) -> npt.NDArray[np.int64]:
        """Return the counts by group, `[clients, groups]`."""
        return np.stack([self.counts[:, group.classes].sum(axis=1) for group in self.groups()], axis=1)

    def summary(self) -> list[str]:
        """Describe the partition in three sentences."""
        sizes, classes, known = self.sizes, self.classes_per_client, self.divergences[self.sizes > 0]
        below = f"{self.below_batch:,} have" if self.below_batch > 1 else "1 has" if self.below_batch else "none has"
        return [
            f"{plural(len(sizes), 'client')}, {plural(int(sizes.sum()), 'sample')}: "
            f"{between(int(sizes.min()), int(sizes.max()))} each, median {float(np.median(sizes)):,.10g}; "
            f"{below} less than a batch of {self.batch_size:,}",
            f"classes per client: {between(int(classes.min()), int(classes.max()))} of {len(self.class_names):,}, "
            f"{classes.mean():.1f} on average",
            f"divergence from balance (Jensen-Shannon, 0 to 1): {known.mean():.2f} on average, "
            f"{known.min():.2f} to {known.max():.2f}",
        ]


# --------------------------------------------------------------------------------------------------------------------
# A partition on the terminal: sentences, a histogram of sizes, and a row per client.

MOST_ROWS, MOST_BINS, WIDEST, LONGEST_NAME = 40, 10, 100, 24
SYMBOLS = "0123456789"
BAR, SHORT = "cyan", "yellow"


def heterogeneity_table(about: Heterogeneity, console: Console) -> Group:
    """Show a partition, as wide and as colourful as the terminal is."""
    encoding, width = console.encoding, min(console.width, WIDEST)
    block = "█" if can_braille(encoding) else "#"
    coloured = console.color_system is not None and not console.no_color
    bins = size_bins(about.sizes)
    most, room = max(clients for *_, clients in bins), max(4, width - 30)
    histogram = plain_table(["samples", "clients"], left=["clients"])
    for low, high, clients in bins:
        bar = (block * length(clients, most, room), BAR)
        histogram.add_row(between(low, high), Text.assemble(bar, f" {clients:,}"))
    parts: list[RenderableType] = [Text(showable(about.title, encoding), style="bold"), *map(Text, about.summary())]
    parts += ["", histogram, "", _client_rows(about, block, coloured, width, encoding)]
    if len(about.sizes) > MOST_ROWS:
        parts.append(Text(f"{MOST_ROWS} of {len(about.sizes):,} clients, evenly spaced by size", style=DIM))
    groups = about.groups()
    if coloured or [group.name for group in groups] != list(SYMBOLS[: len(about.class_names)]):
        entries = []
        for group, symbol in zip(groups, SYMBOLS, strict=False):
            key = (block * 2, group.colour) if coloured else f"{symbol}:"
            entries.append(Text.assemble(key, " ", showable(group.name, encoding)))
            entries[-1].truncate(LONGEST_NAME)
        parts.append(Columns(entries, padding=(0, 3)))
    return Group(*parts)


def _client_rows(about: Heterogeneity, block: str, coloured: bool, width: int, encoding: str) -> Table:
    shown = chosen(about.by_size, MOST_ROWS).tolist()
    most = width // 4
    names = [showable(about.name_of(client), encoding) for client in shown]
    names = [name if len(name) <= most else f"{name[: most - 1]}." for name in names]
    room = width - 36 - max(6, *map(cell_len, names))  # what names, numbers and the spaces between take
    strip_width = max(10, min(40, room * 2 // 3))
    bar_width = max(0, min(20, room - strip_width))
    headings = ["client", "samples", "", "classes", "divergence", "class mix"]
    drawn = plain_table(headings, left=["", "class mix", *["client"] * bool(about.client_names)])
    drawn.columns[2].width = bar_width
    grouped, largest = about.grouped(), int(about.sizes.max())
    for client, name in zip(shown, names, strict=True):
        size, cells = int(about.sizes[client]), portions(grouped[client].tolist(), strip_width)
        pieces = [
            (block * count, colour) if coloured else symbol * count
            for count, colour, symbol in zip(cells, PALETTE, SYMBOLS, strict=False)
        ]
        drawn.add_row(
            Text(name),
            f"{size:,}",
            Text(block * length(size, largest, bar_width), style=BAR if size >= about.batch_size else SHORT),
            f"{about.classes_per_client[client]:,}",
            f"{about.divergences[client]:.2f}" if size else UNKNOWN,
            Text.assemble(*pieces),
        )
    return drawn


def size_bins(sizes: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return bins of client sizes as (lowest, highest, clients): at most ten, 1, 2 or 5 times a power of ten wide."""
    low, high = int(sizes.min()), int(sizes.max())
    steps = (factor * 10**power for power in range(20) for factor in (1, 2, 5))
    step = next(step for step in steps if high // step - low // step < MOST_BINS)
    counts = np.bincount(sizes // step - low // step)
    starts = [(low // step + number) * step for number in range(len(counts))]
    return [(start, start + step - 1, int(count)) for start, count in zip(starts, counts, strict=True)]


def portions(counts: Sequence[int], width: int) -> list[int]:
    """Divide `width` cells in proportion to counts: the largest remainders are rounded up."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    cells = [count * width // total for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda number: -(counts[number] * width % total))
    for number in by_remainder[: width - sum(cells)]:
        cells[number] += 1
    return cells


def chosen(clients: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Return all clients, or `most` of them at even distances, the first and the last included."""
    if len(clients) <= most:
        return clients
    return clients[np.rint(np.linspace(0, len(clients) - 1, most)).astype(np.int64)]


def length(value: int, largest: int, width: int) -> int:
    """Return the length of a bar: in proportion, and at least 1 for a value above 0."""
    return max(min(1, value), round(value / largest * width)) if width else 0


def showable(name: str, encoding: str) -> str:
    """Put a question mark for what the terminal cannot show, and for control characters."""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return printable.encode(encoding, "replace").decode(encoding)


LEGEND = (
    "Smallest, median and largest: samples of a client. Below a batch: clients with fewer samples than that. Classes "
    "of a client, and divergence from balance (Jensen-Shannon, 0 to 1): means over clients. ±: the standard deviation "
    "over seeds."
)


def seeds_table(title: str, divisions: Mapping[int, Heterogeneity]) -> Group:
    """Make a row for each seed's division of the same data, and the spread over all of them."""

    def numbers(about: Heterogeneity) -> list[float]:
        sizes, known = about.sizes, about.divergences[about.sizes > 0]
        of_clients = about.below_batch, about.classes_per_client.mean(), known.mean()
        return [float(one) for one in (sizes.min(), np.median(sizes), sizes.max(), *of_clients)]

    def shown(value: float) -> str:
        return f"{value:,.0f}" if value == int(value) and value >= 1 else figure(value)

    drawn = plain_table(["seed", "smallest", "median", "largest", "below a batch", "classes", "divergence"])
    rows = {str(seed): numbers(about) for seed, about in divisions.items()}
    columns = list(zip(*rows.values(), strict=True))
    for seed, values in {**rows, "mean": [fmean(column) for column in columns]}.items():
        drawn.add_row(seed, *map(shown, values))
    drawn.add_row("±", *(figure(stdev(column)) for column in columns))
    return Group(Text(title, style="bold"), drawn, Text(LEGEND, style=DIM))


# --------------------------------------------------------------------------------------------------------------------
# A partition as a picture.

LONGEST_DRAWN_NAME = 16
NAMED = 20  # up to this number of clients, their names fit below bars
ABREAST = 5  # up to this number of clients, their names fit beside each other


def heterogeneity_picture(about: Heterogeneity) -> Drawing:
    """Draw sizes, class mixes, and size against divergence."""

    def compose(figure: Figure) -> None:
        panels = figure.subplot_mosaic([["sizes", "scatter"], ["mix", "scatter"]], width_ratios=[1.75, 1])
        put_heading(figure, about.title)
        _sizes(panels["sizes"], about)
        _mix(panels["mix"], about)
        _divergences(panels["scatter"], about)
        put_title(panels["sizes"], "samples per client")
        put_title(panels["mix"], "class mix")
        put_title(panels["scatter"], "divergence from balance, by samples")

    return Drawing(compose)


def _sizes(axes: Axes, about: Heterogeneity) -> None:
    from matplotlib.ticker import MaxNLocator

    sizes = about.sizes[about.by_size]
    axes.stairs(sizes, fill=True, color=COLOURS[4])
    axes.stairs(np.where(sizes < about.batch_size, sizes, 0), fill=True, color=COLOURS[1])
    put_level(axes, "one batch", about.batch_size, COLOURS[1])
    axes.set_ylim(0, max(int(sizes.max()), about.batch_size) * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    put_clients(axes, len(sizes))
    if about.client_names and len(sizes) <= NAMED:
        names = [shortened(about.name_of(client), LONGEST_DRAWN_NAME) for client in about.by_size.tolist()]
        slanted: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(np.arange(len(names)) + 0.5, names, **(slanted if len(names) > ABREAST else {}))


def _mix(axes: Axes, about: Heterogeneity) -> None:
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
    put_clients(axes, len(tops))
    names = [shortened(group.name, LONGEST_DRAWN_NAME) for group in groups]
    handles = [Patch(color=group.colour, label=name) for group, name in zip(groups, names, strict=True)]
    columns = min(len(names), max(1, 75 // (4 + max(map(len, names)))))
    square: dict[str, Any] = {"borderpad": 0, "handlelength": 1, "handleheight": 1, "columnspacing": 1.4}
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=columns, **square)


def _divergences(axes: Axes, about: Heterogeneity) -> None:
    sizes, divergences = about.sizes[about.sizes > 0], about.divergences[about.sizes > 0]
    put_dots(axes, sizes, divergences)
    highest = max(0.05, 1.1 * float(divergences.max()))
    single = float(divergence([[1] + [0] * (len(about.class_names) - 1)])[0])
    if 0 < single < highest:
        put_level(axes, "one\nclass", single, FAINT)
    scale_axis(axes, "x", sizes)
    axes.set_ylim(0, highest)
    axes.set_xlabel("samples")
    axes.set_ylabel("Jensen-Shannon divergence, bits")


# --------------------------------------------------------------------------------------------------------------------
# The clients' devices: the time for a sample and the throughput.

PERCENTILES = (5, 25, 50, 75, 95)
MEGABIT = 1e6 / 8
UNITS = (SECONDS, TimeUnit("milliseconds", 1e-3), TimeUnit("microseconds", 1e-6))


@dataclass(frozen=True, eq=False)
class Fleet:
    """The clients' devices, with a title and where their numbers come from."""

    title: str
    source: str
    devices: Sequence[Device]

    @classmethod
    def of(cls, devices: str, clients: int, seed: int, model: str = "", macs: int = MEASURED_MACS) -> Fleet:
        """Draw phones for a model of this many multiply-accumulates, by default those of the network they were measured
        with; or take the devices of a CSV file."""
        check_seed("seed", seed)
        drawn = devices_for(devices, "always", clients, seed=seed, macs=macs, symmetric=False)
        suited = f", for {model} ({count(macs)} MACs)" if model and read_phones(devices) else ""
        title = f"{Path(devices).name} of {plural(clients, 'client')}, seed {seed}{suited}"
        return cls(title, _source(devices, macs), drawn)

    @classmethod
    def for_model(cls, devices: str, config: Config, source: Source) -> Fleet:
        """Draw the devices of a configuration's clients, for its model."""
        shape = ",".join(map(str, source.input_shape))
        costs = outline(config.model, shape, source.classes, config.width, config.norm).costs
        return cls.of(devices, config.known_clients, config.seed, config.model, costs.macs)

    @cached_property
    def seconds(self) -> Floats:
        """A sample's forward pass on each device."""
        return np.array([device.seconds for device in self.devices])

    @property
    def unit(self) -> TimeUnit:
        return time_unit(float(self.seconds.max()), UNITS, at_least=0.02)

    @property
    def times(self) -> Floats:
        return self.seconds / self.unit.seconds

    @cached_property
    def down(self) -> Floats:
        return np.array([device.down for device in self.devices]) / MEGABIT

    @cached_property
    def up(self) -> Floats:
        return np.array([device.up for device in self.devices]) / MEGABIT


def _source(devices: str, macs: int) -> str:
    if not (phones := read_phones(devices)):
        return f"From {devices}, a row for each client; if there are more or fewer rows, the seed draws one for each."
    trips = "Speedtest Global Index, mobile networks worldwide" if phones == Phones() else "as given"
    scaled = "" if macs == MEASURED_MACS else f", scaled to {count(macs)}"
    return (
        f"Time per sample: the latencies of a ResNet in AI Benchmark, taken to have {count(MEASURED_MACS)} MACs (our "
        f"assumption){scaled}. Mbit/s: MobiPerf. Both come from FLHetBench; the ratio of up to down comes from FLASH. "
        "Values are drawn from quantile tables, between the 5th and the 95th percentile. Round trip: "
        f"{trips}; the same for all."
    )


def devices_table(fleet: Fleet) -> RenderableType:
    trips = np.array([device.rtt for device in fleet.devices]) / MILLISECOND
    drawn = plain_table(["percentile", *map(str, PERCENTILES)], left=["percentile"])
    for name, values in (
        (f"{fleet.unit.name} per sample", fleet.times),
        ("Mbit/s down", fleet.down),
        ("Mbit/s up", fleet.up),
        ("ms round trip", trips),
    ):
        if values.any():
            drawn.add_row(name, *map(figure, np.percentile(values, PERCENTILES).tolist()))
    source = fleet.source if trips.any() else f"{fleet.source} No round-trip times: latency is not counted."
    return Group(Text(fleet.title, style="bold"), drawn, Text(source))


def devices_picture(fleet: Fleet) -> Drawing:
    """Draw times, throughputs, and one against the other."""

    def bars(axes: Axes, values: Floats, order: str) -> None:
        axes.stairs(values, fill=True, color=COLOURS[4])
        put_clients(axes, len(values))
        axes.set_xlabel(f"clients, {order} first")

    def compose(drawn: Figure) -> None:
        panels = drawn.subplot_mosaic([["times", "scatter"], ["network", "scatter"]], width_ratios=[1.5, 1])
        times, network, scatter = panels["times"], panels["network"], panels["scatter"]
        put_heading(drawn, fleet.title)
        bars(times, np.sort(fleet.times)[::-1], "slowest")
        scale_axis(times, "y", fleet.times)
        by_speed = np.argsort(-fleet.down, kind="stable")
        bars(network, fleet.down[by_speed], "fastest")
        scale_axis(network, "y", np.concatenate([fleet.down, fleet.up]))
        if not np.array_equal(fleet.up, fleet.down):
            size, places = 14 if len(by_speed) <= 200 else 3, np.arange(len(by_speed)) + 0.5
            network.scatter(places, fleet.up[by_speed], s=size, color=COLOURS[1], linewidths=0, zorder=3, clip_on=False)
            for words, colour, across in (("bars: down", COLOURS[0], 0.84), ("dots: up", COLOURS[1], 1.0)):
                network.annotate(
                    words, (across, 1.0), (0, 6), "axes fraction", "offset points", color=colour, ha="right"
                )
        put_dots(scatter, fleet.down, fleet.times)
        scale_axis(scatter, "x", fleet.down, logarithmic=True)
        scale_axis(scatter, "y", fleet.times)
        scatter.set_xlabel("Mbit/s down")
        scatter.set_ylabel(f"{fleet.unit.name} per sample")
        put_title(times, f"{fleet.unit.name} per sample (forward pass, whole model)")
        put_title(network, "throughput, Mbit/s")
        put_title(scatter, "time per sample, by throughput")

    return Drawing(compose)
