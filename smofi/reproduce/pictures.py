"""The figures of an item, and how clients differ in data and devices."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from smofi.config import Config
from smofi.config.federation import gather
from smofi.data.decoded import ReadProgress, silent
from smofi.errors import InputError
from smofi.files import write_atomically
from smofi.plain_yaml import read_text
from smofi.report.clients import Fleet, Heterogeneity
from smofi.report.figures import Drawing, bars_figure, curves_figure, frame, points_figure
from smofi.report.figures import Panel as Drawn
from smofi.report.numbers import figure as three_figures
from smofi.report.results import History
from smofi.report.style import COLOURS
from smofi.reproduce.items import BARS, CURVES, HOURS, POINTS, Item, Line, images
from smofi.reproduce.results import Measured, name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def drawings(item: Item, panels: Sequence[Measured]) -> dict[str, Drawing]:
    """Each figure by the end of its file's name, empty for the first. Panels without runs are left out."""
    measured = [one for one in panels if one.all_histories]
    if not measured:
        return {}
    found = {}
    if POINTS in item.draw:
        for number, one in enumerate(measured):
            if points := _over_values(one):
                setting = item.title.rpartition(" ")[2]
                found["" if number == 0 else f"-{_plain(one.panel.title)}"] = points_figure(
                    points, ("accuracy", "rounds"), setting=setting, width="page"
                )
    own_axes = len({one.panel.task.title for one in measured}) > 1  # accuracies on other data are not to be compared
    if CURVES in item.draw:
        found[""] = curves_figure([part for one in measured for part in _by_base(one)], own_axes=own_axes)
    if HOURS in item.draw:
        found["-hours"] = curves_figure([_drawn(one) for one in measured], over_hours=True, own_axes=own_axes)
    if BARS in item.draw:
        found["-bars"] = bars_figure([_drawn(one) for one in measured], ("accuracy", "rounds"), width="page")
    return found


def overview(measured: Measured) -> Drawing:
    """The curves of the first base alone."""
    return curves_figure(_by_base(measured)[:1], width="page")


def save_pictures(folder: Path, item: Item, scale: str, panels: Sequence[Measured]) -> list[Path]:
    """Draw an item's figures into a folder, as SVG; it is made if need be."""
    stem, drawn = picture_stem(item, scale), drawings(item, panels)
    if drawn:
        folder.mkdir(parents=True, exist_ok=True)
    return [drawing.save(folder / f"{stem}{end}.svg") for end, drawing in drawn.items()]


def picture_stem(item: Item, scale: str) -> str:
    """What the files of an item's figures are called."""
    return item.name if scale == "small" else f"{item.name}-{scale}"


def _drawn(measured: Measured, title: str = "", histories: Sequence[History] | None = None) -> Drawn:
    return Drawn(
        title or measured.panel.title,
        measured.all_histories if histories is None else histories,
        name_of(measured.baseline, measured.panel),
        measured.panel.target.share,
        measured.target,
    )


def _by_base(measured: Measured) -> list[Drawn]:
    """A panel for each base that has plugins, as in the paper's figure of Table 1."""
    bases: dict[str, list[Line]] = {}
    for line in measured.panel.lines:
        if measured.histories[line]:
            bases.setdefault(measured.rows[line].base or "", []).append(line)
    if len(bases) < 2:
        return [_drawn(measured)]
    return [
        _drawn(
            measured,
            f"{measured.panel.title}, {lines[0].label}",
            [history for line in lines for history in measured.histories[line]],
        )
        for lines in bases.values()
    ]


def _over_values(measured: Measured) -> list[Drawn]:
    """A panel for each value of what varies: the reference, and each method at that value."""
    reference = [replace(history, name="fedavg") for history in measured.histories[measured.baseline]]
    values = dict.fromkeys(line.value for line in measured.panel.lines if line.value and measured.histories[line])
    found = []
    for value in values:
        own = [line for line in measured.panel.lines if line.value == value]
        histories = [
            replace(history, name=line.method.partition("(")[0]) for line in own for history in measured.histories[line]
        ]
        found.append(_drawn(measured, value, [*reference, *histories]))
    return [replace(one, baseline="fedavg") for one in found]


def _plain(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title).strip("-").lower()


# --------------------------------------------------------------------------------------------------------------------
# How clients differ, in data and in devices: the paper's figure without training.

CLIENTS_TITLE = "How clients differ in data and devices"
CLIENTS_SOURCE = "fig:supp_system_heterogeneity_setup"
FILE = "heterogeneity.csv"
COLUMNS = ("task", "seed", "client", "samples", "divergence", "seconds_per_sample", "kbps")


@dataclass(frozen=True)
class Client:
    """A client's number of samples, their Jensen-Shannon divergence from balance, and its device: seconds for a
    sample's forward pass, and the throughput down in kbit/s."""

    samples: int
    divergence: float
    seconds: float
    kbps: float


Clients = Mapping[str, Sequence[Client]]


def clients_of(scale: str, seed: int, progress: ReadProgress = silent) -> Clients:
    """The clients of each task of a scale; their data is read and divided, and nothing is trained."""
    found = {}
    for task in images(scale):
        config = task.config({"seed": seed, **task.changes})
        found[f"{task.title}, {config.partition}"] = _clients(config, progress)
    return found


def _clients(config: Config, progress: ReadProgress) -> list[Client]:
    federation = gather(config, progress)
    data = Heterogeneity.of(config.divided(federation), federation)
    fleet = Fleet.for_model("phones", config, federation.source)
    return [
        Client(int(samples), float(divergence), float(seconds), 1000 * float(down))
        for samples, divergence, seconds, down in zip(
            data.sizes, data.divergences, fleet.seconds, fleet.down, strict=True
        )
    ]


def write_clients(folder: Path, clients: Clients, seed: int) -> Path:
    """Keep them as a CSV file in a folder."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task, own in clients.items():
        for number, one in enumerate(own):
            measured = (f"{one.divergence:.4f}", f"{one.seconds:.4g}", f"{one.kbps:.0f}")
            writer.writerow([task, seed, number, one.samples, *measured])
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, text.getvalue().encode())
    return folder / FILE


def read_clients(folder: Path) -> Clients:
    """Those kept in a folder; none if it has no such file."""
    path = folder / FILE
    found: dict[str, list[Client]] = {}
    if not path.is_file():
        return found
    for number, row in enumerate(csv.DictReader(io.StringIO(read_text(path))), start=2):
        try:
            one = Client(
                int(row["samples"]), float(row["divergence"]), float(row["seconds_per_sample"]), float(row["kbps"])
            )
            found.setdefault(row["task"], []).append(one)
        except (KeyError, ValueError, TypeError):
            raise InputError(f"{path}, line {number}: expected the columns {', '.join(COLUMNS)}") from None
    return found


def client_sentences(clients: Clients) -> list[str]:
    """Each task in a sentence."""
    return [_sentence(task, own) for task, own in clients.items()]


def _sentence(task: str, own: Sequence[Client]) -> str:
    samples = [one.samples for one in own]
    return (
        f"{task}: {len(own)} clients with {min(samples):,} to {max(samples):,} samples (median {median(samples):g}), "
        f"divergence {fmean(one.divergence for one in own):.2f} on average; a sample takes "
        f"{_spread([1000 * one.seconds for one in own])} ms, the throughput is "
        f"{_spread([one.kbps / 1000 for one in own])} Mbit/s."
    )


def _spread(values: Sequence[float]) -> str:
    """The smallest and the largest, which phones have very far apart."""
    return f"{three_figures(min(values))} to {three_figures(max(values))}"


def clients_drawing(clients: Clients) -> Drawing:
    """Size against divergence, and below time against throughput, a column for each task."""

    def compose(drawn: Figure) -> None:
        grid = drawn.subplots(2, len(clients), squeeze=False)
        for column, (task, own) in enumerate(clients.items()):
            top, bottom = grid[0][column], grid[1][column]
            _scatter(top, [one.samples for one in own], [one.divergence for one in own])
            _scatter(bottom, [1000 * one.seconds for one in own], [one.kbps / 1000 for one in own])
            bottom.set_yscale("log")
            _plain_numbers(bottom.yaxis)
            frame(top, False, task)
            frame(bottom, False)
            top.set_xlabel("samples")
            bottom.set_xlabel("ms for a sample")
            if column == 0:
                top.set_ylabel("JS divergence from balance")
                bottom.set_ylabel("throughput (Mbit/s)")

    return Drawing(compose, (7.0 if len(clients) > 1 else 3.35, 4.2))


def _scatter(axes: Axes, across: Sequence[float], up: Sequence[float]) -> None:
    axes.scatter(across, up, s=9, color=COLOURS[0], alpha=0.55, linewidths=0)
    axes.set_xscale("log")
    _plain_numbers(axes.xaxis)


def _plain_numbers(axis: Axis) -> None:
    """1, 2 and 5 of each power of ten, as people write them."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())
