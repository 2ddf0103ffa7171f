"""A partition and a round of each method, as data for the page. What cannot be had is said, and the page goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smofi.config.federation import Federation, gather
from smofi.errors import SmofiError
from smofi.report.heterogeneity import Heterogeneity
from smofi.report.numbers import duration
from smofi.report.page.private import without_folders
from smofi.report.show import Snapshot
from smofi.report.timeline import KINDS, Timeline
from smofi.report.timeline.pieces import pieces
from smofi.report.timeline.rounds import as_divided, timeline_of
from smofi.runs import StoredPartition, read_partition_file

SCALE, PIXELS, BAR = 1000, 320, 100
"""A timeline is this many units long, drawn as for this many pixels; a client's bar is this many units high."""

MOST_CLIENTS, MOST_TIMELINES = 24, 8


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
        drawn.notes.append(f"The data cannot be read here, so the mix of classes is not shown: {_said(error)}.")
    drawn.partition = _partition(first, federation, drawn.notes)
    clocked = [
        run for run in runs if run.config.clock != "none" and run.records and run.config.seed == first.config.seed
    ]
    if federation and clocked:
        number = min(len(run.records) for run in clocked)
        for run in clocked[:MOST_TIMELINES]:
            try:
                drawn.timelines.append(_timeline(timeline_of(run, number, federation)))
            except (SmofiError, OSError) as error:
                drawn.notes.append(f"The round of {run.method} is not shown: {_said(error)}.")
    return drawn


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
        notes.append(f"The partition cannot be read: {_said(error)}.")
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


def _timeline(timeline: Timeline) -> dict[str, Any]:
    """A path for each kind of work, with a row of BAR units for each client."""
    places = np.unique(np.linspace(0, len(timeline.lines) - 1, MOST_CLIENTS).round().astype(int)).tolist()
    lines = [timeline.lines[place] for place in places]
    unit = timeline.seconds / SCALE or 1.0
    paths: dict[str, list[str]] = {kind: [] for kind in ("waiting", *KINDS)}
    for row, line in enumerate(lines):
        paths["waiting"].append(_box(0, line.present / unit, row * BAR + 10, BAR - 20))
        for piece in pieces(line, timeline.seconds / PIXELS):
            bottom = row * BAR + BAR - 10
            for kind in KINDS:
                height = (BAR - 20) * piece.share(kind)
                bottom -= height  # type: ignore[assignment]
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


def _said(error: Exception) -> str:
    return without_folders(str(error)).rstrip(".")


def as_json(value: Any) -> str:
    """JSON that can stand in an HTML page: no text in it can end the script it stands in.

    >>> as_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
