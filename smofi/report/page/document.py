"""The whole page: one HTML file that loads nothing, and whose rules forbid it to."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import smofi
from smofi.config.federation import Federation, gather
from smofi.config.settings import SETTINGS
from smofi.data.cache import data_home
from smofi.errors import InputError, SmofiError
from smofi.files import write_atomically
from smofi.plural import plural, some_of
from smofi.report.comparing.blocks import paired
from smofi.report.heading import clients_of, own_data
from smofi.report.heterogeneity import Heterogeneity
from smofi.report.history import BAND, Scale
from smofi.report.measures import Row
from smofi.report.names import rows_by_base
from smofi.report.numbers import UNKNOWN, duration, speed_up
from smofi.report.page.elements import Cell, Column, Html, breakable, element, mean_rounds, results, table
from smofi.report.page.reading import (
    FoundRun,
    Judged,
    charts_of,
    command_shown,
    diagnostics_of,
    find_runs,
    judge,
    setting_shown,
    time_axis,
    without_folders,
)
from smofi.report.page.target import MARKER, check_page
from smofi.report.setups import Setup, setups_of
from smofi.report.show import Snapshot
from smofi.report.style import SOLID, Look, looks
from smofi.report.timeline import KINDS, Timeline, as_divided, pieces, timeline_of
from smofi.runs import StoredPartition, read_partition_file
from smofi.web import digest_of, script_of, style_of

# --------------------------------------------------------------------------------------------------------------------
# The result in a sentence.


def headline(judged: Judged) -> str:
    """Which method has the highest mean over rounds, whether its lead can be relied on, and how fast it reaches the
    target."""
    first, ranked = judged.winner, judged.alike
    if first is None:
        return _without_winner(judged)
    base = judged.row(first.base)
    other = base if base in ranked and base is not first else _second(ranked, first)
    some = f"Of the {len(ranked)} methods that can be compared so far, " if len(ranked) < len(judged.rows) else ""
    text = f"{some}{first.name} has the highest mean {first.metric.short} over rounds: {_mean(first)}, "
    text += f"against {_mean(other)} of {other.name}.{_speed(first, base)}"
    return f"{text} {_lead(judged, first, _second(ranked, first))} {_seeds(first)}"


def _lead(judged: Judged, first: Row, second: Row) -> str:
    """By how much the first is ahead of the next, seed by seed; a lead that may as well be chance is called so."""
    of = {row.name: [run.history for run in judged.runs if run.history.name == row.name] for row in (first, second)}
    found = paired(of[first.name], of[second.name])
    if found is None or found.mean.low is None or found.mean.high is None:
        return f"Its lead over {second.name} is that of one seed: no difference to rely on."
    gain, between = _points(first.metric, found.mean.mean, found.mean.low, found.mean.high)
    if found.mean.low > 0:
        return f"Seed by seed, it is {gain} ahead of {second.name}, the next; 95% interval {between}."
    return f"Its lead over {second.name}, the next, is no difference to rely on: {gain}, 95% interval {between}."


def _points(metric: Scale, mean: float, low: float, high: float) -> tuple[str, str]:
    """
    >>> _points(Scale("accuracy", share=True), 0.0123, -0.01, 0.0346)
    ('1.2 points', '-1.0 to 3.5')
    """
    if metric.share:
        return f"{100 * mean:.1f} points", f"{100 * low:.1f} to {100 * high:.1f}"
    return metric.text(mean), f"{metric.text(low)} to {metric.text(high)}"


def _without_winner(judged: Judged) -> str:
    if not judged.rows:
        return "Nothing has been measured yet."
    best = max(judged.rows, key=lambda row: row.best)
    if len(judged.rows) > 1:
        return "The methods cannot be ranked yet: they have not finished the same seeds and rounds. Figures are so far."
    sofar = " so far" if best.name in judged.marks else ""
    shown = best.metric.with_spread(best.best, best.best_std)
    return f"{best.name} reaches a best {best.metric.short} of {shown}{sofar}. {_seeds(best)}"


def _second(ranked: Sequence[Row], first: Row) -> Row:
    return max((row for row in ranked if row is not first), key=lambda row: row.mean)


def _mean(row: Row) -> str:
    return row.metric.with_spread(row.mean, row.mean_std)


def _speed(row: Row, base: Row | None) -> str:
    """How many rounds to the target, and how many times as fast as its base."""
    if row.rounds is None or row.speed_up is None or base is None or base is row or base.rounds is None:
        return ""
    faster = f": {speed_up(row.speed_up)} as fast" if row.speed_up > 1 else ""
    rounds = f"{mean_rounds(row.rounds)} rounds, {base.name} in {mean_rounds(base.rounds)}"
    return f" It reaches the target ({row.target_is}) in {rounds}{faster}."


def _seeds(row: Row) -> str:
    return f"Means ± standard deviations over {row.seeds} seeds." if row.seeds > 1 else "A single seed."


def warnings_about(found: Sequence[FoundRun]) -> list[tuple[str, str]]:
    """The runs that a reader must not take for finished and whole: what is the matter, and which they are.

    >>> warnings_about([FoundRun("a/smofi", None, "metrics.jsonl is missing"), FoundRun("b", None, "no manifest")])
    [('Damaged, not shown', 'a/smofi, b')]
    """
    kinds: dict[str, Callable[[FoundRun], bool]] = {
        "Still going, figures so far": lambda one: one.state == "still going",
        "Interrupted, figures so far": lambda one: one.state == "interrupted",
        "Diverged, curves end where a value is no number": lambda one: one.state == "diverged",
        "Damaged, not shown": lambda one: one.run is None,
        "Damaged in files that this page does not need": lambda one: one.run is not None and bool(one.damage),
    }
    named = [(kind, [one.label for one in found if is_so(one)]) for kind, is_so in kinds.items()]
    return [(kind, some_of(labels)) for kind, labels in named if labels]


# --------------------------------------------------------------------------------------------------------------------
# A partition and a round of each method, as data for the page. What cannot be had is said, and the page goes on.

SCALE, PIXELS, BAR = 1000, 400, 100
"""Units of a timeline's length, pixels that the longest is drawn for, and units of the height of a client's bar."""

MOST_CLIENTS, MOST_TIMELINES = 12, 8


@dataclass
class Pictures:
    """What is drawn beside the curves, and what to say where something is missing."""

    partition: dict[str, Any] | None = None
    timelines: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pictures_of(runs: Sequence[Snapshot]) -> Pictures:
    """Of the first run's partition, and of a round of every method with that run's seed, where a clock ran."""
    first, drawn = runs[0], Pictures()
    federation = None
    try:
        federation = gather(as_divided(first))
    except (SmofiError, OSError, ValueError) as error:
        drawn.notes.append(f"The data cannot be read here, so the mix of classes is not shown: {_said(error, first)}.")
    drawn.partition = _partition(first, federation, drawn.notes)
    if federation is not None:
        drawn.timelines = _timelines(runs, federation, drawn.notes)
    return drawn


def _timelines(runs: Sequence[Snapshot], federation: Federation, notes: list[str]) -> list[dict[str, Any]]:
    """The last round that all methods have, with the first run's seed."""
    seed = runs[0].config.seed
    clocked = [run for run in runs if run.config.clock != "none" and run.records and run.config.seed == seed]
    found: list[Timeline] = []
    for run in clocked[:MOST_TIMELINES]:
        try:
            found.append(timeline_of(run, min(len(one.records) for one in clocked), federation))
        except (SmofiError, OSError) as error:
            notes.append(f"The round of {run.method} is not shown: {_said(error, run)}.")
    if len(clocked) > MOST_TIMELINES:
        notes.append(f"The rounds of the first {MOST_TIMELINES} of {len(clocked)} methods are shown.")
    longest = max((timeline.seconds for timeline in found), default=0.0)
    return [_timeline(timeline, pixel=longest / PIXELS) for timeline in found]


def _partition(run: Snapshot, federation: Federation | None, notes: list[str]) -> dict[str, Any] | None:
    """The clients' sizes, largest first, and with the data the share of each class."""
    if federation is not None:
        about = Heterogeneity.of(run.config.model_copy(update={"clients": len(federation.indices)}), federation)
        order = about.by_size
        counts = about.grouped()[order]
        names = [about.name_of(client) for client in order.tolist()]
        classes = [{"name": group.name, "colour": group.colour} for group in about.groups()]
        return {
            "sizes": about.sizes[order].tolist(),
            "clients": names,
            "batch": run.config.batch_size,
            "classes": classes,
            "counts": counts.T.tolist(),
            "summary": about.summary(),
        }
    try:
        stored: StoredPartition = read_partition_file(run.path)
    except SmofiError as error:
        notes.append(f"The partition cannot be read: {_said(error, run)}.")
        return None
    sizes = np.bincount(stored.owners[stored.owners >= 0])
    order = np.argsort(-sizes, kind="stable")
    return {
        "sizes": sizes[order].tolist(),
        "clients": [str(client) for client in order.tolist()],
        "batch": run.config.batch_size,
        "classes": [],
        "counts": [],
        "summary": [],
    }


def _timeline(timeline: Timeline, pixel: float) -> dict[str, Any]:
    """A path for each kind of work, with a row of BAR units for each client."""
    places = np.unique(np.linspace(0, len(timeline.lines) - 1, MOST_CLIENTS).round().astype(int)).tolist()
    lines = [timeline.lines[place] for place in places]
    unit = timeline.seconds / SCALE or 1.0
    paths: dict[str, list[str]] = {kind: [] for kind in ("waiting", *KINDS)}
    for row, line in enumerate(lines):
        paths["waiting"].append(_box(0, line.present / unit, row * BAR + 10, BAR - 20))
        for piece in pieces(line, pixel):
            bottom = float(row * BAR + BAR - 10)
            for kind in KINDS:
                height = (BAR - 20) * piece.share(kind)
                bottom -= height
                if height >= 1:
                    paths[kind].append(_box(piece.start / unit, piece.end / unit, bottom, height))
    clients = [
        {
            "name": line.called,
            "idle": round(line.idle, 4),
            "fate": line.fate,
            "steps": line.steps,
            "busy": round(line.busy, 3),
        }
        for line in lines
    ]
    return {
        "method": timeline.method,
        "round": timeline.round,
        "seconds": timeline.seconds,
        "took": duration(timeline.seconds),
        "idle": round(timeline.idle, 4),
        "all": len(timeline.lines),
        "clients": clients,
        "paths": {kind: "".join(boxes) for kind, boxes in paths.items()},
    }


def _box(start: float, end: float, top: float, height: float) -> str:
    left, width = round(start), max(1, round(end) - round(start))
    return f"M{left} {round(top)}h{width}v{round(height)}h-{width}z"


def _said(error: Exception, run: Snapshot) -> str:
    """What is wrong, without the folders that the run's settings name."""
    texts = [str(value) for _, value in run.config if isinstance(value, str) and re.search(r"[\\/]", value)]
    places = [str(one) for one in (run.path, run.path.resolve(), data_home())]
    return without_folders(str(error), [*texts, *(text.partition(":")[2] for text in texts), *places]).rstrip(".")


def as_json(value: Any) -> str:
    """JSON that can stand in an HTML page: no text in it can end the script it stands in.

    >>> as_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --------------------------------------------------------------------------------------------------------------------
# What each run is, and how the runs' configurations differ.

VERSIONS = ("smofi", "torch", "numpy", "python")
BADGES = {"finished": "good", "still going": "warning", "interrupted": "warning", "diverged": "bad", "damaged": "bad"}


def badge(state: str) -> Html:
    """The state of a run, in words and a colour."""
    return element("span", state, class_=f"badge {BADGES.get(state, 'warning')}")


def runs_table(found: Sequence[FoundRun]) -> Html:
    """A row for each run: folder, state, what it is, when it was started, with which versions, by which command."""
    read = [(one.label, one.run) for one in found if one.run]
    own = [name for name in _differing(read) if name not in ("method", "seed")]
    columns = [
        Column("folder", [Cell(element("span", one.label, class_="folder")) for one in found], numeric=False),
        Column("state", [_state(one) for one in found], numeric=False),
        Column("rounds", [_rounds(one.run) for one in found]),
        Column("method", [Cell(breakable(one.run.method) if one.run else UNKNOWN) for one in found], numeric=False),
        Column("seed", [_number(one.run.config.seed if one.run else None) for one in found]),
        *(Column(_words(name), [Cell(_setting(one.run, name)) for one in found], numeric=False) for name in own),
        Column("started", [Cell(element("span", _started(one.run), class_="when")) for one in found], numeric=False),
        Column("command and versions", [_command(one.run) for one in found], numeric=False),
    ]
    return table("What each run is", columns)


def _state(one: FoundRun) -> Cell:
    stopped = one.run.stopped if one.run else ""
    notes = [*([stopped] if stopped else []), *one.damage]
    damaged = [" ", badge("damaged")] if one.run and one.damage else []
    return Cell(element("span", badge(one.state), *damaged, [element("small", note) for note in notes]))


def _rounds(run: Snapshot | None) -> Cell:
    return Cell(f"{len(run.records)}/{run.progress.rounds}", float(len(run.records))) if run else Cell(UNKNOWN)


def _number(value: int | None) -> Cell:
    return Cell(UNKNOWN) if value is None else Cell(str(value), float(value))


def _started(run: Snapshot | None) -> str:
    return str(run.about.get("started") or UNKNOWN)[:16].replace("T", " ") if run else UNKNOWN


def _versions(run: Snapshot | None) -> str:
    about = run.about if run else {}
    known = [f"{name} {about[name]}" for name in VERSIONS if about.get(name)]
    git = about.get("git")
    if isinstance(git, dict) and git.get("commit"):
        known.append(f"commit {str(git['commit'])[:10]}{', changed since' if git.get('dirty') else ''}")
    return ", ".join(known) or UNKNOWN


def _command(run: Snapshot | None) -> Cell:
    command = str(run.about.get("command") or "") if run else ""
    shown = [element("code", command_shown(command))] if command else []
    return Cell(element("div", shown, element("small", _versions(run)), class_="command"))


def settings_tables(found: Sequence[FoundRun]) -> tuple[Html | None, Html]:
    """The settings in which runs differ, with all values of each, if there are any; and those that all share."""
    runs = [(one.label, one.run) for one in found if one.run]
    differing = _differing(runs)
    columns = [
        Column("setting", [Cell(_words(name)) for name in differing], numeric=False),
        Column("values", [Cell(_values(runs, texts)) for texts in differing.values()], numeric=False),
    ]
    shared = [name for name in SETTINGS if name not in differing]
    pairs = [element("div", element("dt", _words(name)), element("dd", _setting(runs[0][1], name))) for name in shared]
    return table("Settings that differ", columns) if differing else None, element("dl", pairs, class_="settings")


def _differing(runs: Sequence[tuple[str, Snapshot]]) -> dict[str, list[str]]:
    """The settings of which not all runs have the same value, with that of each run."""
    values = {name: [_setting(run, name) for _, run in runs] for name in SETTINGS}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def _values(runs: Sequence[tuple[str, Snapshot]], texts: Sequence[str]) -> Html:
    """Each value with the number of its runs, or with the run that alone has it."""
    counts = Counter(texts)
    labels = {text: label for text, (label, _) in zip(texts, runs, strict=True)}
    whose = {text: plural(number, "run") if number > 1 else labels[text] for text, number in counts.items()}
    return element("ul", [element("li", f"{text} ", element("small", whose[text])) for text in counts], class_="values")


def _setting(run: Snapshot | None, name: str) -> str:
    return setting_shown(getattr(run.config, name)) if run else UNKNOWN


def _words(setting: str) -> str:
    return setting.replace("_", " ")


# --------------------------------------------------------------------------------------------------------------------
# One setup on the page: the result in a sentence, the table, and the figures, which the page's script draws.

TO_USE = "Hover or use the arrow keys to read values; drag across, or use + and −, to zoom."


@dataclass(frozen=True)
class Section:
    """A setup's part of the page, and the data of its figures."""

    place: int
    setup: Setup
    judged: Judged
    pictures: Pictures

    @classmethod
    def of(cls, place: int, setup: Setup) -> Section:
        """Read all that is shown, the methods in the order of the paper's table."""
        names = rows_by_base(list(dict.fromkeys(run.method for run in setup.runs)))
        order = [name for _, below in names for name in below]
        setup = replace(setup, runs=tuple(sorted(setup.runs, key=lambda run: order.index(run.method))))
        return cls(place, setup, judge(setup), pictures_of(setup.runs))

    @property
    def name(self) -> str:
        """What sets the setup apart, or what it is if there is no other."""
        config, served = self.setup.config, self.setup.runs[0].clients
        divided = f"{setting_shown(config.partition)}, {clients_of(config)}" if served is None else own_data(served)
        alone = f"{setting_shown(config.data)}, {divided}, {config.model}"
        return without_folders(self.setup.name) or alone

    @property
    def headline(self) -> str:
        return headline(self.judged)

    @property
    def anchor(self) -> str:
        return f"setup-{self.place}"

    def data(self) -> dict[str, Any]:
        """What the script draws."""
        runs = self.judged.runs
        methods = list(dict.fromkeys(run.method for run in runs))
        axis, rows = time_axis(runs), self.judged.rows
        return {
            "methods": [{"name": name, **_look(look)} for name, look in zip(methods, looks(methods), strict=True)],
            "charts": charts_of(runs),
            "diagnostics": diagnostics_of(runs),
            "time": axis[0] if axis else None,
            "target": rows[0].target if rows else None,
            "partition": self.pictures.partition,
            "timelines": self.pictures.timelines,
        }

    def html(self) -> Html:
        """The section without its figures, each of which has an empty place."""
        pieces: list[Html] = [element("h2", self.name if self.setup.name else "Results")]
        pieces.append(element("p", self.headline, class_="lead"))
        if self.judged.rows:
            pieces += [results(self.judged, "Methods"), element("p", self._target(), class_="note")]
        pieces += [element("p", note, class_="note") for note in self.judged.notes]
        pieces += self._curves()
        pieces += self._others()
        return element("section", pieces, id=self.anchor, class_="setup", data_setup=self.place)

    def _target(self) -> str:
        first = self.judged.rows[0]
        shown = f"{first.target_is}" if first.target_is else first.metric.text(first.target)
        same = " with the same seed" if first.seeds > 1 else f", which is {first.metric.text(first.target)}"
        return f"The target is {shown}{same if first.target_is else ''}."

    def _curves(self) -> list[Html]:
        if not charts_of(self.judged.runs):
            return []
        band = any(row.seeds > 1 for row in self.judged.rows)
        over = f"{BAND} " if band else ""
        caption = element("figcaption", over, element("span", TO_USE, class_="help"))
        figures = [element("h3", "Learning curves"), _place("curves", "Learning curves", caption)]
        if diagnostics_of(self.judged.runs):
            figures += [element("h3", "Diagnostics"), element("div", class_="multiples", data_figure="diagnostics")]
        return figures

    def _others(self) -> list[Html]:
        pieces: list[Html] = []
        seed = self.setup.config.seed
        if self.pictures.partition:
            summary = [f"{text[:1].upper()}{text[1:]}." for text in self.pictures.partition["summary"]]
            caption = element("figcaption", " ".join([f"How the data is divided with seed {seed}.", *summary]))
            pieces += [element("h3", "Clients' data"), _place("partition", "Clients' data", caption)]
        if timelines := self.pictures.timelines:
            text = f"Round {timelines[0]['round']} with seed {seed}, on the clients' devices; first to finish on top."
            pieces += [element("h3", "A round"), _place("timeline", "A round", element("figcaption", text))]
        return pieces + [element("p", note, class_="note") for note in self.pictures.notes]


def _place(kind: str, name: str, *content: str | Iterable[str]) -> Html:
    return element("figure", element("div", class_="plot"), *content, data_figure=kind, aria_label=name)


def _look(look: Look) -> dict[str, Any]:
    """How a method is drawn; dashes are in pixels of a line two pixels wide."""
    dashes = "" if look.dashes == SOLID else " ".join(f"{2 * length:g}" for length in look.dashes[1])
    return {"colour": look.colour, "marker": look.marker, "dashes": dashes, "hollow": look.hollow}


# --------------------------------------------------------------------------------------------------------------------
# The whole page: one HTML file that loads nothing, and whose rules forbid it to.

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("sorting.js", "chart.js", "curves.js", "partition.js", "timeline.js", "start.js")


def document(title: str, found: Sequence[FoundRun], sections: Sequence[Section]) -> str:
    """The page as text."""
    library = f"/*! D3, https://d3js.org\n{_asset('d3-LICENSE.txt')}*/\n{_asset('d3.min.js')}"
    own, style = script_of(map(_asset, SCRIPTS)), style_of(_asset("page.css"))
    data = as_json([section.data() for section in sections])
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts=[library, own], style=style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"smofi {smofi.__version__}"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        _top(title, found, sections),
        element("main", *(section.html() for section in sections), _runs(found), id="content"),
        element(
            "footer", f"Made by smofi {smofi.__version__}. Figures are drawn with D3; nothing is loaded from elsewhere."
        ),
        element("script", Html(data), type="application/json", id="data"),
        element("script", Html(library)),
        element("script", Html(own)),
    )
    return f"{MARKER}{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return (ASSETS / name).read_text("utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Only these scripts and this style, recognised by their hashes, and nothing from anywhere."""
    allowed = " ".join(map(digest_of, scripts))
    only = f"script-src {allowed}; style-src {digest_of(style)}"
    return f"default-src 'none'; {only}; base-uri 'none'; form-action 'none'"


def _top(title: str, found: Sequence[FoundRun], sections: Sequence[Section]) -> Html:
    theme = element("button", "Theme: auto", type="button", id="theme", class_="control")
    skip = element("a", "Skip to the results", href="#content", class_="skip")
    pieces = [skip, element("div", element("h1", title), theme, class_="title"), element("p", _extent(found, sections))]
    pieces += [_warnings(found)] if warnings_about(found) else []
    pieces += [_overview(sections)] if len(sections) > 1 else []
    pieces.append(element("noscript", element("p", "Figures are drawn by this page's script, which is switched off.")))
    return element("header", pieces)


def _extent(found: Sequence[FoundRun], sections: Sequence[Section]) -> str:
    runs = [one.run for one in found if one.run]
    methods, seeds = {run.method for run in runs}, {run.config.seed for run in runs}
    parts = [plural(len(found), "run"), plural(len(methods), "method"), plural(len(seeds), "seed")]
    parts += [plural(len(sections), "setup")] if len(sections) > 1 else []
    return ", ".join(parts) + "."


def _warnings(found: Sequence[FoundRun]) -> Html:
    said = [element("li", element("strong", f"{kind}: "), names) for kind, names in warnings_about(found)]
    return element("ul", said, class_="warnings", role="note", aria_label="Runs that are not finished and whole")


def _overview(sections: Sequence[Section]) -> Html:
    """A row for each setup, which leads to its section."""
    winners = [section.judged.winner for section in sections]
    columns = [
        Column(
            "setup",
            [Cell(element("a", section.name, href=f"#{section.anchor}")) for section in sections],
            numeric=False,
        ),
        Column("highest mean over rounds", [Cell(row.name if row else "-") for row in winners], numeric=False),
        Column(
            "mean",
            [Cell(row.metric.with_spread(row.mean, row.mean_std), row.mean) if row else Cell("-") for row in winners],
        ),
        Column("runs", [Cell(str(len(section.setup.runs)), float(len(section.setup.runs))) for section in sections]),
    ]
    return element("nav", table("Setups", columns), aria_label="Setups")


def _runs(found: Sequence[FoundRun]) -> Html:
    differing, shared = settings_tables(found)
    pieces = [element("h2", "Runs"), runs_table(found)]
    if differing is not None:
        pieces += [element("h3", "How their settings differ"), differing]
    pieces.append(element("details", element("summary", "Settings that all runs share"), shared))
    return element("section", pieces, id="runs")


# --------------------------------------------------------------------------------------------------------------------
# From run folders to the page in a file.


def write_page(
    paths: Sequence[str | Path], output: str | Path, title: str | None = None, *, force: bool = False
) -> Path:
    """Write one page about the runs in these folders, each a run, a comparison, or a folder with runs below it.

    >>> write_page(["no-such-folder"], "report.html")
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    path = check_page(output, force=force)
    found = find_runs(paths)
    setups = setups_of([one.run for one in found if one.run])
    sections = [Section.of(place, setup) for place, setup in enumerate(setups)]
    page = document(title or _title(sections), found, sections)
    try:
        write_atomically(path, page.encode("utf-8", "replace"))  # a folder may have any bytes as its name
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _title(sections: Sequence[Section]) -> str:
    return sections[0].name if len(sections) == 1 else "smofi report"
