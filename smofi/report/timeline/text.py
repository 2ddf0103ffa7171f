"""A round's timeline for the terminal: a row per client, and where its time went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from smofi.report.heterogeneity.text import chosen
from smofi.report.numbers import duration, hours_minutes_seconds, percent
from smofi.report.style import DIM
from smofi.report.timeline.rounds import Line, Timeline

MOST_ROWS = 40
STRAGGLER, LOST = "yellow", "red"


def timeline_table(timeline: Timeline) -> Group:
    """Seconds of each kind of work and of waiting; the first to finish comes first, and the slowest is marked.

    >>> from smofi.clock.jobs import Span
    >>> line = Line(7, 1, 1, 8.0, 6.0, "", [Span(0, "compute", 0.0, 6.0)])
    >>> timeline_table(Timeline("digits", "smofi", 3, 60.0, 8.0, [line])).renderables[0].plain
    'smofi, round 3  takes 8.0 s, starting at 1:00; clients wait 25.0% of their time'
    """
    drawn = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("client", "steps", *timeline.kinds, "waiting", "until", "idle"):
        drawn.add_column(Text(heading, style=DIM), justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    decimals = max(0, 2 - math.floor(math.log10(timeline.seconds or 1.0)))
    lines = timeline.lines
    for number in chosen(np.arange(len(lines)), MOST_ROWS).tolist():
        note, style = _note(lines[number], timeline)
        drawn.add_row(*_cells(lines[number], timeline.kinds, decimals), note, style=style)
    means = [fmean(line.seconds[kind] for line in lines) for kind in timeline.kinds]
    means += [fmean(line.waiting for line in lines), fmean(line.until for line in lines)]
    drawn.add_row("mean", "", *(f"{value:,.{decimals}f}" for value in means), percent(timeline.idle), style=DIM)
    some = f"{MOST_ROWS} of {len(lines):,} clients, evenly spaced, " if len(lines) > MOST_ROWS else ""
    return Group(_heading(timeline), Text(f"{some}in seconds, first to finish at the top", style=DIM), drawn)


def _heading(timeline: Timeline) -> Text:
    text = f"takes {duration(timeline.seconds)}, starting at {hours_minutes_seconds(timeline.start)}; "
    text += f"clients wait {percent(timeline.idle)} of their time"
    return Text(f"{timeline.method}, round {timeline.round}  ", style="bold") + Text(text, style="not bold")


def _cells(line: Line, kinds: Sequence[str], decimals: int) -> list[str]:
    steps = f"{line.steps}" if line.steps == line.planned else f"{line.steps}/{line.planned}"
    values = [*(line.seconds[kind] for kind in kinds), line.waiting, line.until]
    return [line.name or f"{line.client}", steps, *(f"{value:,.{decimals}f}" for value in values), percent(line.idle)]


def _note(line: Line, timeline: Timeline) -> tuple[str, str]:
    if line is timeline.slowest:
        return "slowest" + (f", {line.fate}" if line.fate else ""), STRAGGLER
    return line.fate, LOST if line.lost else ""
