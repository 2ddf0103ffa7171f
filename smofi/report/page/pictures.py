"""A partition and a round of each method, as data for the page. What cannot be had is said, and the page goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smofi.config.federation import Federation, gather
from smofi.data.cache import data_home
from smofi.errors import SmofiError
from smofi.report.heterogeneity import Heterogeneity
from smofi.report.numbers import duration
from smofi.report.page.private import without_folders
from smofi.report.show import Snapshot
from smofi.report.timeline import KINDS, Timeline
from smofi.report.timeline.pieces import pieces
from smofi.report.timeline.rounds import as_divided, timeline_of
from smofi.runs import StoredPartition, read_partition_file

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
