"""Timelines as a file, PNG, SVG or PDF by its suffix: a bar per client, coloured by what it does when.

Where steps are too short to be told apart, a bar is divided by its height: each kind has as much of it as it has of the
time, so that nothing is lost however many steps there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smofi.clock.jobs import LATENCY
from smofi.errors import refuse, shortened
from smofi.plural import plural
from smofi.report.heading import put_heading
from smofi.report.numbers import duration
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, FAINT, GRID, INK, looks
from smofi.report.timeline.pieces import pieces
from smofi.report.timeline.rounds import KINDS, Line, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, LINE_HEIGHT, HIGHEST = 11.0, 0.25, 16.0  # inches: of the picture, of a client's line, of all lines together
ACROSS = 1400  # pixels of a round
BAR = (0.1, 0.8)  # where in its line a bar begins, and how high it is
LONGEST_NAME = 24
NAMED = 0.15  # inches: of a line that has room for the client's name
MOST_SHAPES = 1_500  # beyond which they are drawn as pixels in an SVG or a PDF too
FILLS = {"compute": COLOURS[0], "up": COLOURS[5], "server": COLOURS[2], "down": COLOURS[4], LATENCY: COLOURS[3]}
WAITING, LOST = "#dde2e6", COLOURS[1]


def save_timelines(path: str | Path, timelines: Sequence[Timeline]) -> Path:
    """The timelines below each other, over the same seconds; the same ones give the same bytes.

    >>> import tempfile
    >>> from smofi.clock.jobs import Span
    >>> line = Line(7, 1, 1, 8.0, 6.0, "", [Span(0, "compute", 0.0, 6.0)])
    >>> save_timelines(Path(tempfile.mkdtemp()) / "round.svg", [Timeline("digits", "smofi", 3, 0.0, 8.0, [line])]).name
    'round.svg'
    """
    if not timelines:
        refuse("timelines", list(timelines), "at least one")
    total = sum(len(timeline.lines) for timeline in timelines)
    line_height = min(LINE_HEIGHT, HIGHEST / total)
    heights = [max(4, len(timeline.lines)) * line_height for timeline in timelines]
    size = (WIDTH, sum(heights) + 0.6 * len(timelines) + 1.2)
    named = line_height >= NAMED
    return save_picture(path, lambda figure: _compose(figure, timelines, heights, named=named), size, padding={})


def _compose(figure: Figure, timelines: Sequence[Timeline], heights: Sequence[float], *, named: bool) -> None:
    from matplotlib.patches import Patch

    longest = max(timeline.seconds for timeline in timelines)
    panels = figure.subplots(len(timelines), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    colours = [look.colour for look in looks([timeline.method for timeline in timelines])]
    for axes, timeline, colour in zip(panels, timelines, colours, strict=True):
        _bars(axes, timeline, longest / ACROSS)
        _frame(axes, timeline, longest, colour, named=named)
        _notes(axes, timeline, named)
    panels[-1].set_xlabel("seconds from the beginning of the round")
    put_heading(figure, timelines[0].setting, timelines[0].details)
    there = {kind for timeline in timelines for kind in timeline.kinds}
    fills = {**{KINDS[kind]: colour for kind, colour in FILLS.items() if kind in there}, "waiting": WAITING}
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in fills.items()],
        loc="outside lower left",
        ncols=len(fills),
        frameon=False,
        handlelength=1,
        handleheight=1,
        columnspacing=1.6,
    )


def _bars(axes: Axes, timeline: Timeline, pixel: float) -> None:
    """For each client a bar as long as it is present, in the colour of waiting, and what it does on top."""
    from matplotlib.collections import PolyCollection

    low, high = BAR
    shapes: dict[str, list[list[tuple[float, float]]]] = {colour: [] for colour in (WAITING, *FILLS.values())}
    for place, line in enumerate(timeline.lines):
        shapes[WAITING].append(_box(0.0, line.present, place + low, high))
        for piece in pieces(line, pixel):
            bottom = place + low + high
            for kind, colour in FILLS.items():
                height = high * piece.share(kind)
                bottom -= height
                if height:
                    shapes[colour].append(_box(piece.start, piece.end, bottom, height))
    many = sum(map(len, shapes.values())) > MOST_SHAPES
    for colour, boxes in shapes.items():
        # an edge of the same colour, for neighbours would else be told apart by a faint line
        axes.add_collection(PolyCollection(boxes, facecolor=colour, edgecolor=colour, linewidth=0.25, rasterized=many))


def _box(start: float, end: float, bottom: float, height: float) -> list[tuple[float, float]]:
    return [(start, bottom), (end, bottom), (end, bottom + height), (start, bottom + height)]


def _frame(axes: Axes, timeline: Timeline, longest: float, colour: str, *, named: bool) -> None:
    count = len(timeline.lines)
    axes.set_xlim(0, longest)
    axes.set_ylim(count, 0)
    axes.axvline(timeline.seconds, color=INK, linewidth=1.2, clip_on=False)
    heading = f"{timeline.method}, round {timeline.round}: {duration(timeline.seconds)}, "
    heading += f"clients wait {timeline.idle:.0%} of their time"
    axes.set_title(heading, loc="left", fontsize=11, color=colour, parse_math=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, pad=5)
    axes.grid(axis="x", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter("{x:,.4g}")
    if named:
        names = [shortened(line.called, LONGEST_NAME) for line in timeline.lines]
        axes.set_yticks(np.arange(count) + 0.5, names, fontsize=9, parse_math=False)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{plural(count, 'client')}, first to finish at the top")


def _notes(axes: Axes, timeline: Timeline, named: bool) -> None:
    """A cross where a client was lost, and a note beside each line, or beside the slowest client's alone."""
    slowest = timeline.slowest
    for place, line in enumerate(timeline.lines):
        if line.lost:
            axes.plot(line.until, place + 0.5, "X", color=LOST, markeredgecolor="white", markersize=8, clip_on=False)
        if not named and line is not slowest:
            continue
        axes.annotate(
            _note(line, line is slowest) if named else f"{shortened(line.called, LONGEST_NAME)}:\n{_note(line, True)}",
            (1.0, place + 0.5),
            (6, 0),
            axes.get_yaxis_transform(),
            "offset points",
            color=LOST if line.lost else INK if line is slowest else FAINT,
            va="center",
            fontsize=9,
            parse_math=False,
        )


def _note(line: Line, slowest: bool) -> str:
    """How a client's round went.

    >>> _note(Line(7, 8, 2, 4.0, 4.0, "left", []), slowest=False)
    'waits 100%, left (2 of 8 steps)'
    """
    fate = f", {line.fate} ({line.steps} of {plural(line.planned, 'step')})" if line.fate else ""
    return f"waits {line.idle:.0%}{', slowest' if slowest else ''}{fate}"
