"""Show what each client does in a round, by the clock: as a table, and as a picture with a bar for each piece."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from rich.console import Group
from rich.text import Text

from smofi.clock import Clock
from smofi.clock.replay import LATENCY, Span
from smofi.config import Config
from smofi.config.federation import Federation, gather
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions import PREFIX as SAVED
from smofi.errors import InputError, check_count, refuse, shortened
from smofi.flat import Layout
from smofi.plural import plural
from smofi.report.clients import chosen
from smofi.report.names import details, setting
from smofi.report.numbers import duration, hours_minutes_seconds, percent
from smofi.report.snapshots import Snapshot, snapshots_in
from smofi.report.style import COLOURS, DIM, FAINT, INK, Drawing, looks, plain_table, put_heading
from smofi.training import arguments_of, make_planner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# A round of a run with a clock, replayed from the run's folder: who works, who waits, who comes late or leaves.


KINDS = {"compute": "compute", "up": "sending", "server": "server", "down": "receiving", LATENCY: "latency"}
"""The work of a client when it does not wait, in the order of a step, and the time its messages are under way."""


@dataclass(frozen=True)
class Line:
    """A client's round, in seconds from its beginning. The client took `steps` of the steps `planned`; it was done,
    stopped or gone at the time `until`, and was `present` for this long. Between its spans it waited.

    `fate` is "left" or "too late" for a client that is not part of the new model, "late" for one that is and did not
    take all its steps, and empty for all others."""

    client: int
    planned: int
    steps: int
    present: float
    until: float
    fate: str
    spans: Sequence[Span]
    name: str = ""

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds spent on each kind of work."""
        spent = dict.fromkeys(KINDS, 0.0)
        for span in self.spans:
            spent[span.kind] += span.end - span.start
        return spent

    @property
    def called(self) -> str:
        return self.name or f"client {self.client}"

    @property
    def busy(self) -> float:
        return sum(self.seconds.values())

    @property
    def lost(self) -> bool:
        return self.fate in ("left", "too late")

    @property
    def waiting(self) -> float:
        return max(0.0, self.present - self.busy)

    @property
    def idle(self) -> float:
        return self.waiting / self.present if self.present else 0.0


@dataclass(frozen=True)
class Timeline:
    """A round of a method, counted from 1; it started at `start`, in seconds of the run's virtual time, and took
    `seconds`. The client that finishes first comes first."""

    setting: str
    method: str
    round: int
    start: float
    seconds: float
    lines: Sequence[Line]
    details: str = ""

    @property
    def kinds(self) -> list[str]:
        """The kinds of work that there are: latency only where it is counted."""
        return [kind for kind in KINDS if kind != LATENCY or any(line.seconds[kind] for line in self.lines)]

    @property
    def slowest(self) -> Line:
        return max(self.lines, key=lambda line: line.busy)

    @property
    def idle(self) -> float:
        return fmean(line.idle for line in self.lines)


def read_timelines(folder: str | Path, round: int | None = None, progress: ReadProgress = silent) -> list[Timeline]:
    """Replay a round of the run in this folder, or of every run of a comparison, of several seeds those with the first;
    by default the last one that all of them have. `progress` watches the data being read."""
    runs = [run for run in snapshots_in(folder) if run.config.clock != "none"]
    if not runs:
        refuse("folder", str(folder), "a run with a clock, for example made by: smofi run --clock full")
    runs = [run for run in runs if run.records]
    if not runs:
        refuse("folder", str(folder), "a run with at least one finished round")
    runs = [run for run in runs if run.config.seed == runs[0].config.seed]
    last = min(len(run.records) for run in runs)
    number = last if round is None else check_count("round", round, high=last)
    federation = gather(as_divided(runs[0]), progress)
    return [timeline_of(run, number, federation) for run in runs]


def as_divided(run: Snapshot) -> Config:
    """Return the run's configuration, its data divided by its own file."""
    return run.config.model_copy(update={"partition": f"{SAVED}{run.path}", "validation": 0.0})


def timeline_of(run: Snapshot, number: int, federation: Federation) -> Timeline:
    """Replay a round of a run, counted from 1, with the data as the run divided it; refuse what did not happen."""
    config, record = run.config, run.records[number - 1]
    arguments = arguments_of(**config.arguments(federation), method=config.method[0])
    planner = make_planner(arguments, Layout.of(arguments.model), federation.clients)
    clock, before = planner.clock, run.records[number - 2]["virtual_end"] if number > 1 else 0.0
    assert isinstance(clock, Clock)
    settled = planner.plan(number - 1, before)
    assert settled.time
    start, end = settled.time.began, settled.time.ended
    same_clients = record.get("selected") == settled.clients and record.get("steps") == settled.steps
    if not same_clients or not math.isclose(record.get("virtual_end") or 0.0, end):
        raise InputError(
            f"{run.path} cannot be replayed: its round {number} comes out differently from its record; expected the "
            "data, the devices and the version of smofi that the run was made with"
        )
    _, available = clock.present(planner.eligible, start)
    plan = planner.intended(number - 1, available)
    replayed = clock.replayed(plan, start, watch=True)
    spans: dict[int, list[Span]] = {row: [] for row in range(len(plan.clients))}
    for span in replayed.spans:
        spans[span.row].append(Span(span.row, span.kind, span.start - start, span.end - start))
    lines = []
    for row, (client, planned, steps) in enumerate(zip(plan.clients, plan.steps, replayed.steps, strict=True)):
        fate = "late" if steps < planned else ""
        if client in settled.time.left_out:
            fate = "left" if replayed.gone[row] else "too late"
        present = min(end, clock.devices[client].presence.leaves(start)) - start
        name = federation.client_names[client] if federation.client_names else ""
        lines.append(Line(client, planned, steps, present, replayed.until[row] - start, fate, spans[row], name))
    return Timeline(
        setting=setting(config),
        details=details(config),
        method=config.method[0],
        round=number,
        start=start,
        seconds=end - start,
        lines=sorted(lines, key=lambda line: line.until),
    )


# --------------------------------------------------------------------------------------------------------------------
# A client's round in pieces that can be drawn, however many steps it has.

ALONE, TOGETHER = 1.5, 24.0
"""Pixels: what is broader than the first is drawn by itself; what is not, together with others up to the second."""


@dataclass
class DrawnPiece:
    """From `start` to `end` a client spent these `seconds` on each kind of work, and waited for the rest."""

    start: float
    end: float
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    def share(self, kind: str) -> float:
        return self.seconds[kind] / (self.end - self.start)


def pieces(line: Line, pixel: float) -> Iterator[DrawnPiece]:
    """Cut a line into pieces from left to right, where a pixel is `pixel` seconds wide; a longer gap stays a gap."""
    piece = None
    for span in line.spans:
        alone = span.end - span.start > ALONE * pixel
        apart = piece is None or span.start - piece.end > pixel or span.end - piece.start > TOGETHER * pixel
        if piece and (alone or apart):
            yield piece
            piece = None
        piece = piece or DrawnPiece(span.start, span.end)
        piece.end = span.end
        piece.seconds[span.kind] += span.end - span.start
        if alone:
            yield piece
            piece = None
    if piece:
        yield piece


WAITING = "waiting"
Box: TypeAlias = tuple[float, float, float, float]


def boxes_of(lines: Sequence[Line], pixel: float) -> dict[str, list[Box]]:
    """Return the boxes to draw for each kind of work, and below them for waiting: start and end in seconds, top and
    height in lines."""
    boxes: dict[str, list[Box]] = {kind: [] for kind in (WAITING, *KINDS)}
    for place, line in enumerate(lines):
        boxes[WAITING].append((0.0, line.present, place + 0.1, 0.8))
        for piece in pieces(line, pixel):
            bottom = place + 0.9
            for kind in KINDS:
                if height := 0.8 * piece.share(kind):
                    bottom -= height
                    boxes[kind].append((piece.start, piece.end, bottom, height))
    return boxes


# --------------------------------------------------------------------------------------------------------------------
# A round's timeline for the terminal: a row per client, and where its time went.

MOST_ROWS = 40
STRAGGLER, LOST = "yellow", "red"


def timeline_table(timeline: Timeline) -> Group:
    """List seconds of each kind of work and of waiting; the first to finish comes first, and the slowest is marked."""
    lines, kinds = timeline.lines, timeline.kinds
    drawn = plain_table(["client", "steps", *kinds, "waiting", "until", "idle", ""], left=[""], gap=1)
    decimals = max(0, 2 - math.floor(math.log10(timeline.seconds or 1.0)))

    def seconds(values: Sequence[float]) -> list[str]:
        return [f"{value:,.{decimals}f}" for value in values]

    for number in chosen(np.arange(len(lines)), MOST_ROWS).tolist():
        line = lines[number]
        note, style = line.fate, LOST if line.lost else ""
        if line is timeline.slowest:
            note, style = ", ".join(filter(None, ("slowest", line.fate))), STRAGGLER
        steps = f"{line.steps}" if line.steps == line.planned else f"{line.steps}/{line.planned}"
        spent = seconds([*(line.seconds[kind] for kind in kinds), line.waiting, line.until])
        drawn.add_row(line.name or f"{line.client}", steps, *spent, percent(line.idle), note, style=style)
    means = [fmean(line.seconds[kind] for line in lines) for kind in kinds]
    means += [fmean(line.waiting for line in lines), fmean(line.until for line in lines)]
    drawn.add_row("mean", "", *seconds(means), percent(timeline.idle), style=DIM)
    some = f"{MOST_ROWS} of {len(lines):,} clients, evenly spaced, " if len(lines) > MOST_ROWS else ""
    text = f"takes {duration(timeline.seconds)}, starting at {hours_minutes_seconds(timeline.start)}; "
    text += f"clients wait {percent(timeline.idle)} of their time"
    title = Text(f"{timeline.method}, round {timeline.round}  ", style="bold") + Text(text, style="not bold")
    return Group(title, Text(f"{some}in seconds, first to finish at the top", style=DIM), drawn)


# --------------------------------------------------------------------------------------------------------------------
# Timelines as a file, PNG, SVG or PDF by its suffix: a bar per client, coloured by what it does when.

WIDTH, LINE_HEIGHT, HIGHEST = 11.0, 0.25, 16.0  # inches: of the picture, of a client's line, of all lines together
ACROSS = 1400  # pixels of a round
LONGEST_NAME = 24
NAMED = 0.15  # inches: of a line that has room for the client's name
MOST_SHAPES = 1_500  # beyond which they are drawn as pixels in an SVG or a PDF too
FILLS = dict(zip(KINDS, (COLOURS[0], COLOURS[5], COLOURS[2], COLOURS[4], COLOURS[3]), strict=True)) | {
    WAITING: "#dde2e6"
}
LOST_COLOUR = COLOURS[1]


def timelines_picture(timelines: Sequence[Timeline]) -> Drawing:
    """Draw timelines below each other, over the same seconds."""
    total = sum(len(timeline.lines) for timeline in timelines)
    line_height = min(LINE_HEIGHT, HIGHEST / total)
    heights = [max(4, len(timeline.lines)) * line_height for timeline in timelines]
    size = (WIDTH, sum(heights) + 0.6 * len(timelines) + 1.2)
    longest = max(timeline.seconds for timeline in timelines)
    there = {WAITING, *(kind for timeline in timelines for kind in timeline.kinds)}
    fills = {KINDS.get(kind, kind): colour for kind, colour in FILLS.items() if kind in there}

    def compose(figure: Figure) -> None:
        from matplotlib.patches import Patch

        panels = figure.subplots(len(timelines), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes, timeline, look in zip(panels, timelines, looks([one.method for one in timelines]), strict=True):
            _draw(axes, timeline, longest, look.colour, named=line_height >= NAMED)
        panels[-1].set_xlabel("seconds from the beginning of the round")
        put_heading(figure, timelines[0].setting, timelines[0].details)
        handles = [Patch(color=colour, label=name) for name, colour in fills.items()]
        square: dict[str, Any] = {"handlelength": 1, "handleheight": 1, "columnspacing": 1.6}
        figure.legend(handles=handles, loc="outside lower left", ncols=len(fills), **square)

    return Drawing(compose, size, padding={})


def _draw(axes: Axes, timeline: Timeline, longest: float, colour: str, *, named: bool) -> None:
    """Draw for each client a bar as long as it is present, in the colour of waiting, and what it does on top; put a
    cross where a client was lost, and a note beside each line, or beside the slowest client's alone."""
    from matplotlib.collections import PolyCollection

    found = boxes_of(timeline.lines, longest / ACROSS)
    many = sum(map(len, found.values())) > MOST_SHAPES
    for kind, boxes in found.items():
        corners = [
            [(start, top), (end, top), (end, top + high), (start, top + high)] for start, end, top, high in boxes
        ]
        # an edge of the same colour, for neighbours would else be told apart by a faint line
        look: dict[str, Any] = {"facecolor": FILLS[kind], "edgecolor": FILLS[kind], "linewidth": 0.25}
        axes.add_collection(PolyCollection(corners, rasterized=many, **look))
    count = len(timeline.lines)
    axes.set_xlim(0, longest)
    axes.set_ylim(count, 0)
    axes.axvline(timeline.seconds, color=INK, linewidth=1.2, clip_on=False)
    heading = f"{timeline.method}, round {timeline.round}: {duration(timeline.seconds)}, "
    heading += f"clients wait {timeline.idle:.0%} of their time"
    axes.set_title(heading, loc="left", fontsize=11, color=colour)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, pad=5)
    axes.grid(axis="x")
    axes.xaxis.set_major_formatter("{x:,.4g}")
    if named:
        names = [shortened(line.called, LONGEST_NAME) for line in timeline.lines]
        axes.set_yticks(np.arange(count) + 0.5, names, fontsize=9)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{plural(count, 'client')}, first to finish at the top")
    where = axes.get_yaxis_transform()
    cross: dict[str, Any] = {"color": LOST_COLOUR, "markeredgecolor": "white", "markersize": 8, "clip_on": False}
    for place, line in enumerate(timeline.lines):
        slowest = line is timeline.slowest
        if line.lost:
            axes.plot(line.until, place + 0.5, "X", **cross)
        if named or slowest:
            fate = f", {line.fate} ({line.steps} of {plural(line.planned, 'step')})" if line.fate else ""
            note = f"waits {line.idle:.0%}{', slowest' * slowest}{fate}"
            text = note if named else f"{shortened(line.called, LONGEST_NAME)}:\n{note}"
            look = {"color": LOST_COLOUR if line.lost else INK if slowest else FAINT, "va": "center", "fontsize": 9}
            axes.annotate(text, (1.0, place + 0.5), (6, 0), where, "offset points", **look)
