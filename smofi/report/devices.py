"""How the clients' devices differ: the time for a sample and the throughput, as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.clock import Device
from smofi.clock.devices import MEASURED_MACS, MILLISECOND, Phones, devices_for, read_phones
from smofi.config import Config
from smofi.data.source import Source
from smofi.errors import check_seed
from smofi.plural import plural
from smofi.report.heading import put_heading
from smofi.report.models import outline
from smofi.report.numbers import SECONDS, TimeUnit, count, figure, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, FAINT, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERCENTILES = (5, 25, 50, 75, 95)
MEGABIT = 1e6 / 8
UNITS = (SECONDS, TimeUnit("milliseconds", 1e-3), TimeUnit("microseconds", 1e-6))
UNEVEN = 30  # a logarithmic axis is better where the largest value is more than this many times the smallest
SHORT_AXIS = 300  # on a logarithmic axis, below this ratio, 2 and 5 are marked between the powers of ten
APART = 60  # up to this number of clients, a gap tells bars apart
MANY = 200  # up to this number of clients, dots are large
NUMBER = "{x:,.10g}"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fleet:
    """The clients' devices, with a title and where their numbers come from.

    >>> fleet = Fleet("two", "made up", [Device(0.1, 125_000, 250_000), Device(0.3, 250_000, 1_000_000)])
    >>> fleet.seconds.tolist(), fleet.down.tolist(), fleet.up.tolist()
    ([0.1, 0.3], [2.0, 8.0], [1.0, 2.0])
    """

    title: str
    source: str
    devices: Sequence[Device]

    @classmethod
    def of(cls, devices: str, clients: int, seed: int, model: str = "", macs: int = MEASURED_MACS) -> Fleet:
        """Phones for a model of this many multiply-accumulates, by default those of the network they were measured
        with; or the devices of a CSV file."""
        check_seed("seed", seed)
        drawn = devices_for(devices, "always", clients, seed=seed, macs=macs, symmetric=False)
        suited = f", for {model} ({count(macs)} MACs)" if model and read_phones(devices) else ""
        title = f"{Path(devices).name} of {plural(clients, 'client')}, seed {seed}{suited}"
        return cls(title, _source(devices, macs), drawn)

    @classmethod
    def for_model(cls, devices: str, config: Config, source: Source) -> Fleet:
        """The devices of a configuration's clients, for its model."""
        shape = ",".join(map(str, source.input_shape))
        costs = outline(config.model, shape, source.classes, config.width, config.norm).costs
        return cls.of(devices, config.known_clients, config.seed, config.model, costs.macs)

    @cached_property
    def seconds(self) -> Floats:
        """A sample's forward pass on each device."""
        return np.array([device.seconds for device in self.devices])

    @property
    def unit(self) -> TimeUnit:
        """The unit these times are shown in."""
        return time_unit(float(self.seconds.max()), UNITS, at_least=0.02)

    @property
    def times(self) -> Floats:
        """The seconds in this unit."""
        return self.seconds / self.unit.seconds

    @cached_property
    def down(self) -> Floats:
        """Mbit/s down."""
        return np.array([device.down for device in self.devices]) / MEGABIT

    @cached_property
    def up(self) -> Floats:
        """Mbit/s up."""
        return np.array([device.up for device in self.devices]) / MEGABIT

    @cached_property
    def trips(self) -> Floats:
        """Milliseconds of a round trip to the server."""
        return np.array([device.rtt for device in self.devices]) / MILLISECOND


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
    """Percentiles of the devices' speeds, and where the numbers come from.

    >>> from rich.console import Console
    >>> console = Console(width=80, color_system=None)
    >>> fleet = Fleet("one", "Made up.", [Device(0.1, 125_000, 250_000)])
    >>> with console.capture() as captured: console.print(devices_table(fleet))
    >>> print(captured.get().splitlines()[-1])
    Made up. No round-trip times: latency is not counted.
    """
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    drawn.add_column("percentile", no_wrap=True)
    for percentile in PERCENTILES:
        drawn.add_column(f"{percentile}", justify="right", no_wrap=True)
    for name, values in (
        (f"{fleet.unit.name} per sample", fleet.times),
        ("Mbit/s down", fleet.down),
        ("Mbit/s up", fleet.up),
        ("ms round trip", fleet.trips),
    ):
        if values.any():
            drawn.add_row(name, *map(figure, np.percentile(values, PERCENTILES).tolist()))
    source = fleet.source if fleet.trips.any() else f"{fleet.source} No round-trip times: latency is not counted."
    return Group(Text(fleet.title, style="bold"), drawn, Text(source))


def save_devices(path: str | Path, fleet: Fleet) -> Path:
    """Times, throughputs, and one against the other, in one picture; the same devices give the same bytes.

    >>> import tempfile
    >>> fleet = Fleet("two", "made up", [Device(0.1, 125_000, 250_000), Device(0.3, 250_000, 1_000_000)])
    >>> save_devices(Path(tempfile.mkdtemp()) / "two.svg", fleet).name
    'two.svg'
    """
    return save_picture(path, lambda figure: _compose(figure, fleet))


def _compose(figure: Figure, fleet: Fleet) -> None:
    panels = figure.subplot_mosaic([["times", "scatter"], ["network", "scatter"]], width_ratios=[1.5, 1])
    put_heading(figure, fleet.title)
    _times(panels["times"], fleet)
    _network(panels["network"], fleet)
    _scatter(panels["scatter"], fleet)
    for name, heading in (
        ("times", f"{fleet.unit.name} per sample (forward pass, whole model)"),
        ("network", "throughput, Mbit/s"),
        ("scatter", "time per sample, by throughput"),
    ):
        panels[name].set_title(heading, loc="left", fontsize=11, color=FAINT)
        panels[name].spines[["top", "right"]].set_visible(False)
        panels[name].tick_params(which="both", length=0, pad=5)


def _times(axes: Axes, fleet: Fleet) -> None:
    _bars(axes, np.sort(fleet.times)[::-1], COLOURS[4])
    axes.set_xlabel("clients, slowest first")
    _scale(axes, "y", fleet.times)


def _network(axes: Axes, fleet: Fleet) -> None:
    order = np.argsort(-fleet.down, kind="stable")
    _bars(axes, fleet.down[order], COLOURS[4])
    axes.set_xlabel("clients, fastest first")
    _scale(axes, "y", np.concatenate([fleet.down, fleet.up]))
    if np.array_equal(fleet.up, fleet.down):
        return
    size = 14 if len(order) <= MANY else 3
    places = np.arange(len(order)) + 0.5
    axes.scatter(places, fleet.up[order], s=size, color=COLOURS[1], linewidths=0, zorder=3, clip_on=False)
    for words, colour, across in (("bars: down", COLOURS[0], 0.84), ("dots: up", COLOURS[1], 1.0)):
        axes.annotate(words, (across, 1.0), (0, 6), "axes fraction", "offset points", color=colour, ha="right")


def _scatter(axes: Axes, fleet: Fleet) -> None:
    size = 36 if len(fleet.devices) <= MANY else 12
    axes.scatter(fleet.down, fleet.times, s=size, color=COLOURS[0], alpha=0.55, linewidths=0, clip_on=False)
    _logarithmic(axes, "x", fleet.down)
    _scale(axes, "y", fleet.times)
    axes.set_xlabel("Mbit/s down")
    axes.set_ylabel(f"{fleet.unit.name} per sample")
    axes.grid(color=GRID, linewidth=1)
    axes.set_axisbelow(True)


def _bars(axes: Axes, values: Floats, colour: str) -> None:
    """A bar for each client, with gaps between bars that are wide enough."""
    axes.stairs(values, fill=True, color=colour)
    axes.set_xlim(0, len(values))
    axes.set_xticks([])
    if len(values) <= APART:
        for edge in range(1, len(values)):
            axes.axvline(edge, color="white", linewidth=1.2)


def _scale(axes: Axes, side: str, values: Floats) -> None:
    """From 0, or logarithmic where small values could not be seen."""
    from matplotlib.ticker import MaxNLocator

    if values.max() > UNEVEN * values.min():
        _logarithmic(axes, side, values)
        return
    axes.set(**{f"{side}lim": (0, 1.08 * float(values.max()))})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[side]
    axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(NUMBER)


def _logarithmic(axes: Axes, side: str, values: Floats) -> None:
    """At least a decade, with as many numbers as there is room for."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = float(values.min()) / 1.3, float(values.max()) * 1.3
    wider = max(1.0, (10 * low / high) ** 0.5)
    axes.set(**{f"{side}scale": "log", f"{side}lim": (low / wider, high * wider)})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[side]
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if high < SHORT_AXIS * low else (1,), numticks={"x": 5, "y": 8}[side])
    )
    axis.set_major_formatter(NUMBER)
    axis.set_minor_formatter(NullFormatter())
