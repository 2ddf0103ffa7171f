"""The page of results and all figures, from the files of a folder and hand-written parts.

docs/results.md                made by this, with README's block between its two marks
docs/results/*.csv, *.yaml     the runs, and how clients differ
docs/results/parts/*.md        written by hand: before, verdict and after the tables; NAME.md for an item
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paper.items import ITEMS, SCALES, Item, Line, images
from paper.results import Measured, read_results, write_csv
from paper.tables import about, claims_table, findings, measure_words, readme_table, table_of
from smofi.config.federation import gather
from smofi.errors import InputError
from smofi.files import write_atomically
from smofi.report.clients import Fleet, Heterogeneity
from smofi.report.figures import Panel as Drawn
from smofi.report.figures import bars_figure, curves_figure, frame, points_figure
from smofi.report.numbers import figure
from smofi.report.results import History
from smofi.report.style import Drawing, put_dots, scale_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# The page: an item has a section once more than half of its runs are there.

MADE = '<!-- Made by `make paper ARGS="--page {0}.md"`: change what it is made from, in {0}/. -->'
BEGIN, END = "<!-- results: made by make paper -->", "<!-- end of results -->"
OVERVIEW = "overview.svg"
"""The figure in README."""


@dataclass(frozen=True)
class Page:
    """A page to be made, and the seeds it shows (None: those of each item)."""

    path: Path
    seeds: Sequence[int] | None

    @property
    def folder(self) -> Path:
        """The folder with the results that it is made from."""
        return self.path.with_suffix("")

    @cached_property
    def measured(self) -> dict[tuple[Item, str], list[Measured]]:
        """The panels of each item and scale."""
        results = read_results(self.folder)
        return {
            (item, scale): [Measured.of(panel, self.seeds or item.seeds, results) for panel in item.at(scale)]
            for item in ITEMS.values()
            for scale in SCALES
        }

    @cached_property
    def done(self) -> dict[tuple[Item, str], list[Measured]]:
        """The panels of items that have a section."""
        counts = {key: _runs(panels) for key, panels in self.measured.items()}
        return {key: panels for key, panels in self.measured.items() if 2 * counts[key][0] > counts[key][1]}

    def text(self) -> str:
        """Write the whole page."""
        small = [(item, panels) for (item, scale), panels in self.measured.items() if scale == "small"]
        pieces = [MADE.format(f"{self.path.parent.name}/{self.path.stem}"), "# Results", self._part("before")]
        pieces += ["## The paper's claims", claims_table(small), self._part("verdict"), *self._clients()]
        for (item, scale), panels in self.done.items():
            pieces += [*self._section(item, scale, panels), self._part(item.name if scale == "small" else "")]
        unfinished = [
            f"- `{item.name}`, {item.title}: {_runs(panels)[0]} of {_runs(panels)[1]} runs"
            for item, panels in small
            if (item, "small") not in self.done
        ]
        if unfinished:
            pieces += ["## Not finished yet", "\n".join(["At most half of the runs are here:", "", *unfinished])]
        pieces.append(self._part("after"))
        return "\n\n".join(piece.strip() for piece in pieces if piece.strip()) + "\n"

    def _clients(self) -> Iterator[str]:
        if clients := read_clients(self.folder):
            yield f"## {CLIENTS_TITLE}"
            yield f"In the paper: {CLIENTS_SOURCE}. `make paper ITEM={HETEROGENEITY}`; nothing is trained."
            yield from client_sentences(clients)
            yield f"![{CLIENTS_TITLE}]({self.folder.name}/{HETEROGENEITY}.svg)"
            yield self._part(HETEROGENEITY)

    def _section(self, item: Item, scale: str, panels: Sequence[Measured]) -> Iterator[str]:
        yield f"## {item.title}"
        where = f"In the paper: {item.source}." if item.source else "Not in the paper."
        at_scale = "" if scale == "small" else f' ARGS="--scale {scale}"'
        yield f"{where} `make paper ITEM={item.name}{at_scale}`"
        for one in panels:
            yield f"**{one.panel.title}**. {about(one)}"
            if one.all_histories:
                yield table_of(item, one)
                yield "\n".join(f"- {sentence}" for sentence in findings(one))
        for name in drawings(item, scale, panels):
            yield f"![{item.title}]({self.folder.name}/{name})"
        yield from item.remarks

    def _part(self, name: str) -> str:
        path = self.folder / "parts" / f"{name}.md"
        return path.read_text(encoding="utf-8") if name and path.is_file() else ""

    def readme(self) -> tuple[Path, str] | None:
        """Fill README's block, if README stands beside the page's folder and has one."""
        path = self.path.resolve().parent.parent / "README.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        before, mark, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        (panel,) = self.measured[ITEMS["table1"], "small"]
        if not mark or not end or not panel.all_histories:
            return None
        picture = f"![{ITEMS['table1'].title}]({self.path.parent.name}/{self.folder.name}/{OVERVIEW})"
        block = "\n\n".join([readme_table(panel), measure_words(panel), picture])
        return path, f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"

    def save(self) -> list[Path]:
        """Write page, figures and README's block. A page that was not made by this is refused."""
        if self.path.is_file() and not self.path.read_text(encoding="utf-8").startswith(MADE.partition("`")[0]):
            raise InputError(f"{self.path} exists and was not made by this: choose another name, or move it")
        texts, pictures = {self.path: self.text()}, {}
        if found := self.readme():
            texts |= dict([found])
            (panel,) = self.measured[ITEMS["table1"], "small"]
            pictures[OVERVIEW] = curves_figure(_by_base(panel)[:1], width="page")
        for (item, scale), panels in self.done.items():
            pictures |= drawings(item, scale, panels)
        if clients := read_clients(self.folder):
            pictures[f"{HETEROGENEITY}.svg"] = clients_drawing(clients)
        for path, text in texts.items():
            write_atomically(path, text.encode())
        return [*texts, *(drawing.save(self.folder / name) for name, drawing in pictures.items())]


def _runs(panels: Sequence[Measured]) -> tuple[int, int]:
    """Count the runs that are there, and those that should be."""
    every = sum(len(one.panel.lines) * len(one.every_seed) for one in panels)
    return every - sum(len(one.missing) for one in panels), every


# --------------------------------------------------------------------------------------------------------------------
# The figures of an item.


def drawings(item: Item, scale: str, panels: Sequence[Measured]) -> dict[str, Drawing]:
    """Compose an item's figures, by the names of their files. Panels without runs are left out."""
    measured = [one for one in panels if one.all_histories]
    if not measured:
        return {}
    stem = item.name if scale == "small" else f"{item.name}-{scale}"
    own_axes = len({one.panel.task for one in measured}) > 1  # accuracies on other data are not to be compared
    found = {}
    if "points" in item.draw:
        setting = item.title.rpartition(" ")[2]
        for number, one in enumerate(measured):
            if points := _over_values(one):
                plain = re.sub(r"[^\w.]+", "-", one.panel.title).strip("-").lower()
                name = f"{stem}-{plain}.svg" if number else f"{stem}.svg"
                found[name] = points_figure(points, ("accuracy", "rounds"), setting=setting, width="page")
    if "curves" in item.draw:
        found[f"{stem}.svg"] = curves_figure([part for one in measured for part in _by_base(one)], own_axes=own_axes)
    if "hours" in item.draw:
        whole = [_drawn(one, one.panel.title, one.all_histories) for one in measured]
        found[f"{stem}-hours.svg"] = curves_figure(whole, over_hours=True, own_axes=own_axes)
    if "bars" in item.draw:
        whole = [_drawn(one, one.panel.title, one.all_histories) for one in measured]
        found[f"{stem}-bars.svg"] = bars_figure(whole, ("accuracy", "rounds"), width="page")
    return found


def _drawn(measured: Measured, title: str, histories: Sequence[History], baseline: str = "") -> Drawn:
    panel = measured.panel
    return Drawn(title, histories, baseline or panel.name_of(panel.baseline), panel.target.share, measured.target)


def _by_base(measured: Measured) -> list[Drawn]:
    """Make a panel for each base that has plugins, as in the paper's figure of Table 1."""
    bases: dict[str, list[Line]] = {}
    for line, row in measured.rows.items():
        bases.setdefault(row.base or "", []).append(line)
    title = measured.panel.title
    if len(bases) < 2:
        return [_drawn(measured, title, measured.all_histories)]
    return [
        _drawn(measured, f"{title}, {own[0].label}", [one for line in own for one in measured.histories[line]])
        for own in bases.values()
    ]


def _over_values(measured: Measured) -> list[Drawn]:
    """Make a panel for each value of what varies: the baseline, and each method at that value."""
    reference = [replace(history, name="fedavg") for history in measured.histories[measured.panel.baseline]]
    by_value: dict[str, list[History]] = {}
    for line, histories in measured.histories.items():
        if line.value:
            method = line.method.partition("(")[0]
            by_value.setdefault(line.value, []).extend(replace(history, name=method) for history in histories)
    return [_drawn(measured, value, [*reference, *own], "fedavg") for value, own in by_value.items() if own]


# --------------------------------------------------------------------------------------------------------------------
# How clients differ, in data and in devices: the paper's figure without training.

HETEROGENEITY = "fig-heterogeneity"
"""The name of the item that needs no run."""
CLIENTS_TITLE = "How clients differ in data and devices"
CLIENTS_SOURCE = "fig:supp_system_heterogeneity_setup"
FILE = "heterogeneity.csv"
COLUMNS = ("task", "seed", "client", "samples", "divergence", "seconds_per_sample", "kbps")


class Client(NamedTuple):
    """A client's number of samples, their Jensen-Shannon divergence from balance, and its device: seconds for a
    sample's forward pass, and the throughput down in kbit/s."""

    samples: int
    divergence: float
    seconds: float
    kbps: float


Clients = Mapping[str, Sequence[Client]]


def clients_of(scale: str, seed: int) -> Clients:
    """Return the clients of each image task of a scale; their data is read and divided, and nothing is trained."""
    found = {}
    for task, settings in images(scale).items():
        config = settings.model_copy(update={"seed": seed})
        federation = gather(config)
        data = Heterogeneity.of(config.divided(federation), federation)
        fleet = Fleet.for_model("phones", config, federation.source)
        columns = data.sizes, data.divergences, fleet.seconds, 1000 * fleet.down
        found[f"{task}, {config.partition}"] = [Client(*row) for row in zip(*columns, strict=True)]
    return found


def write_clients(folder: Path, clients: Clients, seed: int) -> Path:
    """Keep clients as a CSV file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        [task, seed, number, one.samples, f"{one.divergence:.4f}", f"{one.seconds:.4g}", f"{one.kbps:.0f}"]
        for task, own in clients.items()
        for number, one in enumerate(own)
    ]
    return write_csv(folder / FILE, COLUMNS, rows)


def read_clients(folder: Path) -> Clients:
    """Return the clients kept in a folder; none if it has no such file."""
    path = folder / FILE
    found: dict[str, list[Client]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, row in enumerate(csv.reader(lines[1:]), start=2):
        try:
            task, _, _, samples, *measured = row
            found.setdefault(task, []).append(Client(int(samples), *map(float, measured)))
        except (ValueError, TypeError):
            raise InputError(f"{path}, line {number}: expected the columns {', '.join(COLUMNS)}") from None
    return found


def client_sentences(clients: Clients) -> list[str]:
    """Describe the clients of each task in a sentence."""
    sentences = []
    for task, own in clients.items():
        samples, divergences, seconds, kbps = zip(*own, strict=True)
        sentences.append(
            f"{task}: {len(own)} clients with {min(samples):,} to {max(samples):,} samples (median "
            f"{median(samples):g}), divergence {fmean(divergences):.2f} on average; a sample takes "
            f"{figure(1000 * min(seconds))} to {figure(1000 * max(seconds))} ms, the throughput is "
            f"{figure(min(kbps) / 1000)} to {figure(max(kbps) / 1000)} Mbit/s."
        )
    return sentences


def clients_drawing(clients: Clients) -> Drawing:
    """Compose size against divergence, and below it time against throughput, a column for each task."""

    def compose(drawn: Figure) -> None:
        grid = drawn.subplots(2, len(clients), squeeze=False)
        for column, (task, own) in enumerate(clients.items()):
            top, bottom = grid[0][column], grid[1][column]
            samples, divergences, seconds, kbps = np.array(own).T
            put_dots(top, samples, divergences)
            put_dots(bottom, 1000 * seconds, kbps / 1000)
            for axes, side, values in ((top, "x", samples), (bottom, "x", 1000 * seconds), (bottom, "y", kbps / 1000)):
                scale_axis(axes, side, values, logarithmic=True)
            frame(top, False, task)
            frame(bottom, False)
            top.set_xlabel("samples")
            bottom.set_xlabel("ms for a sample")
        grid[0][0].set_ylabel("JS divergence from balance")
        grid[1][0].set_ylabel("throughput (Mbit/s)")

    return Drawing(compose, (7.0 if len(clients) > 1 else 3.35, 4.2))
