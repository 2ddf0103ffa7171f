"""Write runs as one HTML page that can be given to others: it loads nothing, and its rules forbid it to."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import smofi
from smofi.config.federation import gather
from smofi.config.settings import SETTINGS
from smofi.data.cache import data_home
from smofi.engine.metrics import is_share
from smofi.errors import InputError, SmofiError, refuse
from smofi.plural import plural, some_of
from smofi.report.asked import PAGE, check_output, write_file
from smofi.report.clients import Heterogeneity, heterogeneity_picture
from smofi.report.figures import SCREEN, Panel, curves_figure
from smofi.report.names import pieces_of, rows_by_base, setting
from smofi.report.numbers import UNKNOWN, TimeUnit, duration, three_digits, time_unit
from smofi.report.results import BAND, USUAL_BASELINE, History, Row, Scale, alike, band, compare, finite, paired
from smofi.report.snapshots import Found, Setup, Snapshot, find_runs, setups_of
from smofi.report.style import SOLID, Drawing, looks
from smofi.report.table import Cell, columns_of, target_of
from smofi.report.timeline import Box, Line, Timeline, as_divided, boxes_of, timeline_of, timelines_picture
from smofi.runs import DamagedFile, read_partition_file
from smofi.web import digest_of, script_of, style_of

# --------------------------------------------------------------------------------------------------------------------
# HTML in which text can only be text: what is not made by `element` is escaped.

EMPTY = frozenset({"meta", "wbr", "img"})  # elements without content and without an end


class Html(str):
    """Text that is HTML already."""


def element(tag: str, /, *content: str | Iterable[str], **attributes: Any) -> Html:
    """Make an element. `class_` is its class and `data_value` is data-value; an attribute that is None or False is left
    out, one that is True has no value."""
    shown = ""
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if value is not None and value is not False:
            shown += f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
    return Html(f"<{tag}{shown}>" if tag in EMPTY else f"<{tag}{shown}>{joined(content)}</{tag}>")


def joined(content: Iterable[str | Iterable[str]]) -> Html:
    """Put pieces of HTML and of text one after the other."""
    return Html(
        "".join(
            piece if isinstance(piece, Html) else html.escape(piece) if isinstance(piece, str) else joined(piece)
            for piece in content
        )
    )


def breakable(name: str) -> Html:
    first, *others = pieces_of(name)
    return joined([first, *(joined([element("wbr"), piece]) for piece in others)])


def badge(words: str, kind: str = "warning") -> Html:
    return element("span", words, class_=f"badge {kind}")


def table(caption: str, columns: Mapping[str, Sequence[str | Cell]], about: Mapping[str, str] | None = None) -> Html:
    """Make a table that can be sorted by each column, cells by their values, in a box that scrolls sideways; the first
    column names the rows. `about` says what is in a column, by its heading."""
    heads, sides = list[Html](), list[list[Html]]()
    for heading, cells in columns.items():
        kind = "number" if any(isinstance(cell, Cell) for cell in cells) else None
        button = element("button", heading, type="button", title=(about or {}).get(heading) or None)
        heads.append(element("th", button, scope="col", class_=kind, aria_sort="none"))
        name, scope = ("td", None) if sides else ("th", "row")
        side = []
        for cell in cells:
            value: float | str | None = "" if kind else None
            if isinstance(cell, Cell):
                value = "" if cell.value is None else cell.value
                cell = element("strong", str(cell)) if cell.best else str(cell)
            side.append(element(name, cell, class_=kind, data_value=value, scope=scope))
        sides.append(side)
    body = [element("tr", row) for row in zip(*sides, strict=True)]
    parts = element("caption", caption), element("thead", element("tr", heads)), element("tbody", body)
    return element("div", element("table", *parts), class_="box", tabindex="0", role="region", aria_label=caption)


# --------------------------------------------------------------------------------------------------------------------
# Text for a page that is given to others: names of files stay, the folders of the machine they lie on do not.

# What comes before a file's name: a drive or a beginning such as ~ or .., and folders.
FOLDERS = re.compile(r"""(?:(?<![\w.])[A-Za-z]:(?=[\\/]))?(?:[^\s\\/:='"(,]*[\\/])+(?=[^\s\\/])""")
QUOTED = re.compile(r"""(['"])([^'"\n]*[\\/][^'"\n]*)\1""")


def without_folders(text: str, known: Iterable[str] = ()) -> str:
    """Reduce each path in a text to its last name; `known` are paths that may be in it with spaces."""
    for path in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(path, last_name(path))
    text = QUOTED.sub(lambda found: f"{found[1]}{last_name(found[2])}{found[1]}", text)
    return FOLDERS.sub("", text.rstrip("\\/") if len(text) > 1 else text)


def last_name(word: str) -> str:
    """Reduce a single word, in which a path may have spaces, to the path's last name."""
    found = re.fullmatch(r"(-[^=]*=)?([A-Za-z][\w+.-]+:)?(.*)", word, re.DOTALL)
    if not found or not re.search(r"[\\/]", found[3]):
        return word
    return (found[1] or "") + (found[2] or "") + re.split(r"[\\/]", found[3].rstrip("\\/"))[-1]


def command_shown(command: str) -> str:
    """Return a command line, its paths as short."""
    try:
        words = shlex.split(command)
    except ValueError:  # cut off inside a quotation
        words = command.split()
    return shlex.join(map(last_name, words))


def setting_shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(setting_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else last_name(str(value))


@dataclass(frozen=True)
class Listed:
    """A run by the `label` it has on the page: the folder that was given, and what is below that. A run that cannot be
    read is None; `damage` is what is wrong with its files."""

    label: str
    run: Snapshot | None
    damage: Sequence[str] = ()

    @classmethod
    def of(cls, found: Found) -> Listed:
        """Name a run without the way to its folder."""
        given = found.given if found.given.name not in ("", "..") else found.given.resolve()
        label = (Path(given.name) / found.path.relative_to(found.given)).as_posix()
        errors = [found.error] if found.error else found.run.damaged if found.run else []
        said = [error.what if isinstance(error, DamagedFile) else str(error) for error in errors]
        name = label.rpartition("/")[2]
        return cls(
            label,
            found.run,
            [
                without_folders(one.replace(f"{found.path}/", f"{name}: ").replace(str(found.path), name))
                for one in said
            ],
        )

    @property
    def state(self) -> str:
        return self.run.state if self.run else "damaged"


# --------------------------------------------------------------------------------------------------------------------
# The measures of a setup's runs, finished or not, and the result in a sentence.

UNFINISHED = ("still going", "interrupted")


@dataclass(frozen=True)
class Judged:
    """A setup's methods: the rows of its table, `marks` beside a method whose runs are not all finished, and `notes` on
    runs that are left out of the table."""

    rows: list[Row]
    marks: dict[str, str]
    notes: list[str]
    runs: list[Snapshot]

    @property
    def alike(self) -> list[Row]:
        """The finished methods with as many seeds and rounds as most others, which alone can be ranked."""
        return alike([row for row in self.rows if row.name not in self.marks])

    @property
    def winner(self) -> Row | None:
        return max(self.alike, key=lambda row: row.mean) if len(self.alike) > 1 else None


def judge(setup: Setup) -> Judged:
    """Measure what can be compared. Of several runs of a method and a seed, a finished one counts, or the one that has
    come furthest."""
    best: dict[str, Snapshot] = {}
    for run in sorted(setup.runs, key=lambda run: (run.state in UNFINISHED, -len(run.records))):
        best.setdefault(run.called, run)
    runs, notes = [run for run in setup.runs if best[run.called] is run], []
    if again := len(setup.runs) - len(runs):
        notes.append(f"{plural(again, 'run')} left out: the same method and seed ran more than once with this setup.")
    histories = [run.history for run in runs if run.history.measured]
    names = [history.name for history in histories]
    baseline = USUAL_BASELINE if USUAL_BASELINE in names else next(iter(names), "")
    seeds = {history.seed for history in histories if history.name == baseline}
    if others := [f"{one.name} (seed {one.seed})" for one in histories if one.seed not in seeds]:
        notes.append(f"Left out of the table, since {baseline} has no result with the same seed: {', '.join(others)}.")
    rows = []
    try:
        rows = compare([history for history in histories if history.seed in seeds])
    except InputError as error:  # for example runs with different metrics
        notes.append(f"These runs cannot be compared: {error}.")
    notes += [
        f"{run.method}, seed {run.config.seed}, has no result: {run.state}." for run in runs if not run.history.measured
    ]
    marks = {}
    for method in dict.fromkeys(run.method for run in runs):
        own = [run for run in runs if run.method == method]
        said = []
        if diverged := sum(run.state == "diverged" for run in own):
            said.append("diverged" if len(own) == 1 else f"{diverged} of {len(own)} seeds diverged")
        if any(run.state in UNFINISHED for run in own):
            said.append(f"unfinished, {fmean(run.progress.done for run in own):.0%} done")
        if said:
            marks[method] = "; ".join(said)
    return Judged(rows, marks, notes, runs)


def headline(judged: Judged) -> str:
    """Say which method has the highest mean over rounds, whether its lead can be relied on, and how fast it reaches the
    target."""
    first, ranked, rows = judged.winner, judged.alike, judged.rows
    if not rows:
        return "Nothing has been measured yet."
    if first is None and len(rows) > 1:
        return "The methods cannot be ranked yet: they have not finished the same seeds and rounds. Figures are so far."
    if first is None:
        row = rows[0]
        sofar = " so far" if row.name in judged.marks else ""
        shown = row.metric.with_spread(row.best, row.best_std)
        return f"{row.name} reaches a best {row.metric.short} of {shown}{sofar}. {_seeds(row)}"
    second = max((row for row in ranked if row is not first), key=lambda row: row.mean)
    base = next((row for row in rows if row.name == first.base), None)
    other = base if base in ranked and base is not first and base else second
    some = f"Of the {len(ranked)} methods that can be compared so far, " if len(ranked) < len(rows) else ""
    mean, others = (row.metric.with_spread(row.mean, row.mean_std) for row in (first, other))
    text = f"{some}{first.name} has the highest mean {first.metric.short} over rounds: {mean}, against {others} of "
    text += f"{other.name}."
    if first.rounds and first.speed_up and base and base is not first and base.rounds:
        faster = f": {first.speed_up:.2f}x as fast" if first.speed_up > 1 else ""
        rounds = f"{three_digits(first.rounds)} rounds, {base.name} in {three_digits(base.rounds)}"
        text += f" It reaches the target ({first.target_is}) in {rounds}{faster}."
    return f"{text} {_lead(judged, first, second)} {_seeds(first)}"


def _lead(judged: Judged, first: Row, second: Row) -> str:
    """Say by how much the first is ahead of the next, seed by seed; a lead that may as well be chance is called so."""
    own, others = ([run.history for run in judged.runs if run.method == row.name] for row in (first, second))
    found = paired(own, others)
    if found is None or found.mean.low is None or found.mean.high is None:
        return f"Its lead over {second.name} is that of one seed: no difference to rely on."
    mean, low, high = (
        f"{100 * one:.1f}" if first.metric.share else first.metric.text(one) for one in found.mean if one is not None
    )
    gain = f"{mean} points" if first.metric.share else mean
    if found.mean.low > 0:
        return f"Seed by seed, it is {gain} ahead of {second.name}, the next; 95% interval {low} to {high}."
    return f"Its lead over {second.name}, the next, is no difference to rely on: {gain}, 95% interval {low} to {high}."


def _seeds(row: Row) -> str:
    return f"Means ± standard deviations over {row.seeds} seeds." if row.seeds > 1 else "A single seed."


# --------------------------------------------------------------------------------------------------------------------
# Curves with bands as data for the page: for each method the mean over its seeds, and its spread.

MOST_POINTS = 400
"""Of a curve; of a longer one, the lowest and the highest of each stretch are kept."""

DIAGNOSTICS = {
    "update_divergence": "Divergence of the clients' updates",
    "momentum_alignment": "Alignment of the clients' momenta",
    "stale_share": "Stale share of the fused momentum",
    "gradient_norm": "Gradient norm, mean",
    "gradient_norm_max": "Gradient norm, largest",
}
LOSSES = {"loss": "test loss", "train_loss": "training loss"}


def chart_of(scale: Scale, runs: Sequence[Snapshot], values: Sequence[list[float | None]]) -> Panel:
    """Make a chart of a quantity from the values of each run, round by round."""
    histories = [
        History(run.method, own, [], run.history.hours, run.config.seed, {scale.name: scale.name})
        for run, own in zip(runs, values, strict=True)
        if run.records
    ]
    return Panel(scale.name, histories, scale=scale)


def chart_data(chart: Panel, unit: TimeUnit | None) -> dict[str, Any]:
    """Return what the script draws: the bands of the methods over the seeds that there are; `seeds` is how many of them
    have each point."""

    def at(values: Sequence[float | None]) -> list[float]:  # five significant digits, more than a picture shows
        return [float(f"{values[place]:.5g}") for place in places]

    series = []
    for method in chart.names:
        seeds = [history for history in chart.histories if history.name == method]
        shown = band(seeds, partial=True)
        known = [place for place, value in enumerate(shown.mean) if value is not None and math.isfinite(value)]
        places = [known[one] for one in kept_places([shown.mean[place] or 0.0 for place in known])]
        if not places:
            continue
        one: dict[str, Any] = {"method": method, "round": [place + 1 for place in places], "mean": at(shown.mean)}
        one["seeds"] = [sum(len(finite(seed.values[place : place + 1])) for seed in seeds) for place in places]
        if shown.seeds > 1:
            one |= {"low": at(shown.low), "high": at(shown.high)}
        if unit:
            one["time"] = at([3600 * hours / unit.seconds for hours in shown.hours])
        series.append(one)
    return {"title": chart.title, "share": bool(chart.scale and chart.scale.share), "series": series}


def kept_places(values: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """Return the places of a curve that are drawn: all of a short one; of a long one the first, the last, and the
    lowest and the highest of each stretch."""
    if len(values) <= most:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    stretch = math.ceil(2 * len(values) / most)
    for start in range(0, len(values), stretch):
        places = range(start, min(start + stretch, len(values)))
        kept |= {min(places, key=values.__getitem__), max(places, key=values.__getitem__)}
    return sorted(kept)


def charts_of(runs: Sequence[Snapshot]) -> list[Panel]:
    """Return a chart of the judged metric, then of further ones and the losses."""
    judged = [run.history for run in runs]
    further = zip(*(history.others for history in judged), strict=False)
    charts = [chart_of(Scale.of(same), runs, [history.values for history in same]) for same in (judged, *further)]
    for name, title in LOSSES.items():
        values = [[record.get(name) for record in run.records] for run in runs]
        charts.append(chart_of(Scale(title, share=False), runs, values))
    return [chart for chart in charts if any(history.measured for history in chart.histories)]


def diagnostics_of(runs: Sequence[Snapshot]) -> list[Panel]:
    """Return a chart of each diagnostic that was recorded."""
    charts = []
    names = {name for run in runs for name in run.diagnostics}
    for name in sorted(names, key=lambda name: [*DIAGNOSTICS, name].index(name)):
        scale = Scale(DIAGNOSTICS.get(name, name.replace("_", " ")), share=is_share(name))
        values = [[(record.get("diagnostics") or {}).get(name) for record in run.records] for run in runs]
        charts.append(chart_of(scale, runs, values))
    return charts


# --------------------------------------------------------------------------------------------------------------------
# A partition and a round of each method, as data for the page. What cannot be had is said, and the page goes on.

SCALE, PIXELS, HIGH = 1000, 400, 100
"""Units of a timeline's length, pixels that the longest is drawn for, and units of a client's line."""

MOST_CLIENTS, MOST_TIMELINES = 12, 8


@dataclass
class Pictures:
    """The pictures beside the curves, and what to say where something is missing. Classes of a partition are known
    where the data can be read."""

    partition: Heterogeneity | None = None
    classes: bool = False
    timelines: list[Timeline] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, runs: Sequence[Snapshot]) -> Pictures:
        """Read the first run's partition, and the last round that all methods have with that run's seed, where a clock
        ran."""
        first, drawn = runs[0], cls()
        try:
            federation = gather(as_divided(first))
        except (SmofiError, OSError, ValueError) as error:
            said = _said(error, first)
            drawn.notes.append(f"The data cannot be read here, so the mix of classes is not shown: {said}.")
            try:
                owners = read_partition_file(first.path).owners
                sizes = np.bincount(owners[owners >= 0])
                drawn.partition = Heterogeneity("", sizes[:, None], ["samples"], first.config.batch_size)
            except SmofiError as error:
                drawn.notes.append(f"The partition cannot be read: {_said(error, first)}.")
            return drawn
        config = first.config.model_copy(update={"clients": len(federation.indices)})
        drawn.partition, drawn.classes = Heterogeneity.of(config, federation), True
        clocked = [one for one in runs if one.config.clock != "none" and one.records and one.config.seed == config.seed]
        for run in clocked[:MOST_TIMELINES]:
            try:
                drawn.timelines.append(timeline_of(run, min(len(one.records) for one in clocked), federation))
            except (SmofiError, OSError) as error:
                drawn.notes.append(f"The round of {run.method} is not shown: {_said(error, run)}.")
        if len(clocked) > MOST_TIMELINES:
            drawn.notes.append(f"The rounds of the first {MOST_TIMELINES} of {len(clocked)} methods are shown.")
        return drawn

    def partition_data(self) -> dict[str, Any] | None:
        """Return the clients' sizes, largest first, and the counts of each class."""
        if (about := self.partition) is None:
            return None
        order = about.by_size
        groups = about.groups() if self.classes else []
        return {
            "sizes": about.sizes[order].tolist(),
            "clients": [about.name_of(client) for client in order.tolist()],
            "batch": about.batch_size,
            "classes": [{"name": group.name, "colour": group.colour} for group in groups],
            "counts": about.grouped()[order].T.tolist() if groups else [],
        }


def timeline_data(timeline: Timeline, pixel: float) -> dict[str, Any]:
    """Return a round of a method, with a path for each kind of work; a pixel is `pixel` seconds wide."""
    places = np.unique(np.linspace(0, len(timeline.lines) - 1, MOST_CLIENTS).round().astype(int)).tolist()
    lines = [timeline.lines[place] for place in places]
    unit = timeline.seconds / SCALE or 1.0

    def path(box: Box) -> str:
        start, end, top, height = box
        left, width = round(start / unit), max(1, round(end / unit) - round(start / unit))
        return f"M{left} {round(HIGH * top)}h{width}v{round(HIGH * height)}h-{width}z"

    def client(one: Line) -> dict[str, Any]:
        idle, busy = round(one.idle, 4), round(one.busy, 3)
        return {"name": one.called, "idle": idle, "fate": one.fate, "steps": one.steps, "busy": busy}

    return {
        "method": timeline.method,
        "round": timeline.round,
        "seconds": timeline.seconds,
        "took": duration(timeline.seconds),
        "idle": round(timeline.idle, 4),
        "all": len(timeline.lines),
        "clients": [client(one) for one in lines],
        "paths": {kind: "".join(map(path, boxes)) for kind, boxes in boxes_of(lines, pixel).items()},
    }


def _said(error: Exception, run: Snapshot) -> str:
    """Say what is wrong, without the folders that the run's settings name."""
    texts = [str(value) for _, value in run.config if isinstance(value, str) and re.search(r"[\\/]", value)]
    places = [str(one) for one in (run.path, run.path.resolve(), data_home())]
    return without_folders(str(error), [*texts, *(text.partition(":")[2] for text in texts), *places]).rstrip(".")


# --------------------------------------------------------------------------------------------------------------------
# One setup on the page: the result in a sentence, the table, and the figures. Each figure is a still picture, which the
# page's script replaces by one that answers.

TO_USE = "Hover or use the arrow keys to read values; drag across, or use + and −, to zoom."


@dataclass(frozen=True)
class Section:
    """A setup's part of the page, and the data of its figures."""

    place: int
    setup: Setup
    judged: Judged
    pictures: Pictures
    charts: Sequence[Panel]
    diagnostics: Sequence[Panel]

    @classmethod
    def of(cls, place: int, setup: Setup) -> Section:
        """Read all that is shown, the methods in the order of the paper's table."""
        names = rows_by_base(list(dict.fromkeys(run.method for run in setup.runs)))
        order = [name for _, below in names for name in below]
        setup = replace(setup, runs=tuple(sorted(setup.runs, key=lambda run: order.index(run.method))))
        judged = judge(setup)
        runs = judged.runs
        return cls(place, setup, judged, Pictures.of(setup.runs), charts_of(runs), diagnostics_of(runs))

    @property
    def name(self) -> str:
        """The settings that set the setup apart, or what it is if there is no other."""
        return without_folders(self.setup.name) or setting(self.setup.config, self.setup.runs[0].clients)

    def data(self) -> dict[str, Any]:
        """Return what the script draws; dashes are in pixels of a line two pixels wide."""
        runs, rows = self.judged.runs, self.judged.rows
        names = list(dict.fromkeys(run.method for run in runs))
        methods = [
            {
                "name": name,
                "colour": look.colour,
                "marker": look.marker,
                "dashes": "" if look.dashes == SOLID else " ".join(f"{2 * length:g}" for length in look.dashes[1]),
                "hollow": look.hollow,
            }
            for name, look in zip(names, looks(names), strict=True)
        ]
        hours = [run.history.hours[-1] for run in runs if run.history.hours]
        clocked = hours and len(hours) == sum(bool(run.records) for run in runs)
        unit = time_unit(3600 * max(hours)) if clocked else None
        timelines = self.pictures.timelines
        longest = max((timeline.seconds for timeline in timelines), default=0.0)
        return {
            "methods": methods,
            "charts": [chart_data(chart, unit) for chart in self.charts],
            "diagnostics": [chart_data(chart, unit) for chart in self.diagnostics],
            "time": unit.name if unit else None,
            "target": rows[0].target if rows else None,
            "partition": self.pictures.partition_data(),
            "timelines": [timeline_data(timeline, pixel=longest / PIXELS) for timeline in timelines],
        }

    def html(self) -> Html:
        judged = self.judged
        content: list[Html] = [element("h2", self.name if self.setup.name else "Results")]
        content.append(element("p", headline(judged), class_="lead"))
        if judged.rows:
            columns = columns_of(judged.rows, judged.alike).values()
            cells: dict[str, Sequence[str | Cell]] = {"method": [], **{one.heading: one.cells for one in columns}}
            for row in judged.rows:
                mark = [" ", badge(judged.marks[row.name])] if row.name in judged.marks else []
                cells["method"] = [*cells["method"], element("span", breakable(row.name), *mark, class_="method")]
            content.append(table("Methods", cells, {one.heading: one.about for one in columns}))
            content.append(element("p", f"The target is {target_of(judged.rows)}.", class_="note"))
        content += [element("p", note, class_="note") for note in judged.notes]
        content += [*self._curves(), *self._others()]
        return element("section", content, id=f"setup-{self.place}", class_="setup", data_setup=self.place)

    def _curves(self) -> list[Html]:
        if not self.charts:
            return []
        over = f"{BAND} " if any(row.seeds > 1 for row in self.judged.rows) else ""
        caption = element("figcaption", over, element("span", TO_USE, class_="help"))
        target = self.judged.rows[0].target if self.judged.rows else None
        panel = replace(self.charts[0], title="", target=target)
        still = still_of(curves_figure([panel], form=SCREEN, size=(8.4, 4.6)))
        figures = _figure("curves", "Learning curves", still, caption)
        if self.diagnostics:
            size = 16.8, 1.2 + 4.8 * math.ceil(len(self.diagnostics) / 4)
            drawing = curves_figure(self.diagnostics, own_axes=True, form=SCREEN, size=size)
            image = _still("Diagnostics", still_of(drawing))
            place = element("div", image, class_="multiples", data_figure="diagnostics")
            figures += [element("h3", "Diagnostics"), place]
        return figures

    def _others(self) -> list[Html]:
        content: list[Html] = []
        seed, drawn = self.setup.config.seed, self.pictures
        if about := drawn.partition:
            summary = [f"{text[:1].upper()}{text[1:]}." for text in about.summary()] if drawn.classes else []
            caption = element("figcaption", " ".join([f"How the data is divided with seed {seed}.", *summary]))
            still = still_of(heterogeneity_picture(about)) if drawn.classes else b""
            content += _figure("partition", "Clients' data", still, caption)
        if timelines := drawn.timelines:
            text = f"Round {timelines[0].round} with seed {seed}, on the clients' devices; first to finish on top."
            still = replace(timelines_picture(timelines), dpi=100).content(".png")
            content += _figure("timeline", "A round", still, element("figcaption", text))
        return content + [element("p", note, class_="note") for note in drawn.notes]


def still_of(drawing: Drawing) -> bytes:
    """Draw an SVG, its text as text."""
    return replace(drawing, style={**drawing.style, "svg.fonttype": "none"}).content()


def _figure(kind: str, name: str, still: bytes, caption: Html) -> list[Html]:
    place = element("div", *([_still(name, still)] if still else []), class_="plot")
    return [element("h3", name), element("figure", place, caption, data_figure=kind, aria_label=name)]


def _still(name: str, still: bytes) -> Html:
    kind = "png" if still.startswith(b"\x89PNG") else "svg+xml"
    return element("img", src=f"data:image/{kind};base64,{base64.b64encode(still).decode()}", alt=name, class_="still")


# --------------------------------------------------------------------------------------------------------------------
# What each run is, and how the runs' configurations differ.

VERSIONS = ("smofi", "torch", "numpy", "python")
BADGES = {"finished": "good", "diverged": "bad", "damaged": "bad"}


def runs_table(listed: Sequence[Listed]) -> Html:
    """Make a row for each run: folder, state, what it is, when it was started, by which command and versions."""
    first, last = ("folder", "state", "rounds", "method", "seed"), ("started", "command and versions")
    own = [name for name in _differing(listed) if name not in first]
    columns: dict[str, list[str | Cell]] = {name: [] for name in (*first, *own, *last)}
    for one in listed:
        run, about = one.run, one.run.about if one.run else {}
        stopped = run.stopped if run else ""
        damaged = [" ", badge("damaged", "bad")] if run and one.damage else []
        notes = [element("small", note) for note in (stopped, *one.damage) if note]
        columns["folder"].append(element("span", one.label, class_="folder"))
        columns["state"].append(element("span", badge(one.state, BADGES.get(one.state, "warning")), *damaged, notes))
        rounds = Cell(f"{len(run.records)}/{run.progress.rounds}", value=len(run.records)) if run else Cell(UNKNOWN)
        seed = Cell(str(run.config.seed), value=run.config.seed) if run else Cell(UNKNOWN)
        columns["rounds"].append(rounds)
        columns["method"].append(breakable(run.method) if run else UNKNOWN)
        columns["seed"].append(seed)
        for name in own:
            columns[name].append(_setting(run, name))
        started = str(about.get("started") or UNKNOWN)[:16].replace("T", " ")
        columns["started"].append(element("span", started, class_="when"))
        known = [f"{name} {about[name]}" for name in VERSIONS if about.get(name)]
        git = about.get("git")
        if isinstance(git, dict) and git.get("commit"):
            known.append(f"commit {str(git['commit'])[:10]}{', changed since' if git.get('dirty') else ''}")
        command = str(about.get("command") or "")
        shown = [element("code", command_shown(command))] if command else []
        made = element("div", shown, element("small", ", ".join(known) or UNKNOWN), class_="command")
        columns["command and versions"].append(made)
    return table("What each run is", {name.replace("_", " "): cells for name, cells in columns.items()})


def runs_section(listed: Sequence[Listed]) -> Html:
    """List the runs, the settings in which they differ, with all values of each, and those that all share."""
    differing = _differing(listed)
    labels = [one.label for one in listed if one.run]
    values = list[str | Cell]()
    for texts in differing.values():
        counts, last = Counter(texts), dict(zip(texts, labels, strict=True))
        whose = {text: plural(number, "run") if number > 1 else last[text] for text, number in counts.items()}
        items = [element("li", f"{text} ", element("small", whose[text])) for text in counts]
        values.append(element("ul", items, class_="values"))
    first = next(one.run for one in listed if one.run)
    pairs = [
        element("div", element("dt", name.replace("_", " ")), element("dd", _setting(first, name)))
        for name in SETTINGS
        if name not in differing
    ]
    content = [element("h2", "Runs"), runs_table(listed)]
    if differing:
        names: list[str | Cell] = [name.replace("_", " ") for name in differing]
        differences = table("Settings that differ", {"setting": names, "values": values})
        content += [element("h3", "How their settings differ"), differences]
    shared = element("dl", pairs, class_="settings")
    content.append(element("details", element("summary", "Settings that all runs share"), shared))
    return element("section", content, id="runs")


def _differing(listed: Sequence[Listed]) -> dict[str, list[str]]:
    """Return the settings of which not all runs have the same value, with that of each run."""
    values = {name: [_setting(one.run, name) for one in listed if one.run] for name in SETTINGS}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def _setting(run: Snapshot | None, name: str) -> str:
    return setting_shown(getattr(run.config, name)) if run else UNKNOWN


# --------------------------------------------------------------------------------------------------------------------
# The whole page.

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("sorting.js", "chart.js", "curves.js", "partition.js", "timeline.js", "start.js")


def write_page(
    paths: Sequence[str | Path], output: str | Path, title: str | None = None, *, force: bool = False
) -> Path:
    """Write one page about the runs in these folders, each a run, a comparison, or a folder with runs below it."""
    path = check_output(output, "output", "page", force=force)
    listed = [Listed.of(one) for one in find_runs(paths)]
    if not any(one.run for one in listed):
        reasons = next((one.damage[0] for one in listed), "nothing was given")
        refuse("run", ", ".join(map(str, paths)), f"at least one run that can be read, but {reasons}")
    setups = setups_of([one.run for one in listed if one.run])
    sections = [Section.of(place, setup) for place, setup in enumerate(setups)]
    name = title or (sections[0].name if len(sections) == 1 else "smofi report")
    return write_file(path, document(name, listed, sections).encode("utf-8", "replace"))  # folders may have any name


def document(title: str, listed: Sequence[Listed], sections: Sequence[Section]) -> str:
    def asset(name: str) -> str:
        return (ASSETS / name).read_text("utf-8")

    library = f"/*! D3, https://d3js.org\n{asset('d3-LICENSE.txt')}*/\n{asset('d3.min.js')}"
    own, style = script_of(map(asset, SCRIPTS)), style_of(asset("page.css"))
    # only these scripts and this style, recognised by their hashes, pictures that are in the page, and nothing else
    policy = f"default-src 'none'; script-src {digest_of(library)} {digest_of(own)}; style-src {digest_of(style)}; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"smofi {smofi.__version__}"),
        element("title", title),
        element("style", Html(style)),
    )
    made = f"Made by smofi {smofi.__version__}. Figures are drawn with D3; nothing is loaded from elsewhere."
    body = element(
        "body",
        _top(title, listed, sections),
        element("main", *(section.html() for section in sections), runs_section(listed), id="content"),
        element("footer", made),
        element("script", Html(as_json([section.data() for section in sections])), type="application/json", id="data"),
        element("script", Html(library)),
        element("script", Html(own)),
    )
    return f"{PAGE}{element('html', head, body, lang='en')}\n"


def as_json(value: Any) -> str:
    """Write JSON that can stand in an HTML page: no text in it can end the script it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _top(title: str, listed: Sequence[Listed], sections: Sequence[Section]) -> Html:
    theme = element("button", "Theme: auto", type="button", id="theme", class_="control")
    skip = element("a", "Skip to the results", href="#content", class_="skip")
    runs = [one.run for one in listed if one.run]
    methods, seeds = {run.method for run in runs}, {run.config.seed for run in runs}
    parts = [plural(len(listed), "run"), plural(len(methods), "method"), plural(len(seeds), "seed")]
    parts += [plural(len(sections), "setup")] if len(sections) > 1 else []
    content = [skip, element("div", element("h1", title), theme, class_="title"), element("p", f"{', '.join(parts)}.")]
    kinds: dict[str, Callable[[Listed], bool]] = {
        "Still going, figures so far": lambda one: one.state == "still going",
        "Interrupted, figures so far": lambda one: one.state == "interrupted",
        "Diverged, curves end where a value is no number": lambda one: one.state == "diverged",
        "Damaged, not shown": lambda one: one.run is None,
        "Damaged in files that this page does not need": lambda one: one.run is not None and bool(one.damage),
    }
    named = [(kind, [one.label for one in listed if is_so(one)]) for kind, is_so in kinds.items()]
    if warnings := [(kind, some_of(labels)) for kind, labels in named if labels]:
        said = [element("li", element("strong", f"{kind}: "), names) for kind, names in warnings]
        label = "Runs that are not finished and whole"
        content.append(element("ul", said, class_="warnings", role="note", aria_label=label))
    if len(sections) > 1:
        winners = [section.judged.winner for section in sections]
        columns: dict[str, Sequence[str | Cell]] = {
            "setup": [element("a", section.name, href=f"#setup-{section.place}") for section in sections],
            "highest mean over rounds": [row.name if row else UNKNOWN for row in winners],
            "mean": [
                Cell(row.metric.with_spread(row.mean, row.mean_std), value=row.mean) if row else Cell(UNKNOWN)
                for row in winners
            ],
            "runs": [Cell(str(len(section.setup.runs)), value=len(section.setup.runs)) for section in sections],
        }
        content.append(element("nav", table("Setups", columns), aria_label="Setups"))
    still = "The page's script is switched off: pictures are still, and tables cannot be sorted."
    content.append(element("noscript", element("p", still)))
    return element("header", content)
