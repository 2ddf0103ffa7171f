"""The rows of growth.py as a picture of four panels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, StrMethodFormatter

from shared.report import FAINT, GRID, MATPLOTLIB_STYLE, METHODS
from shared.rows import Row, pick

LINES: dict[str, dict[str, Any]] = {
    "smofi": {"color": METHODS["smofi"].colour, "label": "SMoFi"},
    "fedavg": {"color": METHODS["fedavg"].colour, "label": "FedAvg"},
    "bare pass": {"color": FAINT, "label": "forward and backward alone", "linestyle": (0, (4, 3))},
}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Seconds over clients, size and workers, memory over clients; the same rows give the same bytes."""
    with matplotlib.rc_context({**MATPLOTLIB_STYLE, "font.size": 9}):
        figure = Figure(figsize=(9, 5.6), facecolor="white", layout="constrained")
        clients, size, workers, memory = figure.subplots(2, 2).flat
        _lines(clients, pick(rows, "seconds", over="clients a round"), "seconds a round", logarithmic=True)
        _lines(size, pick(rows, "seconds", over="parameters"), "seconds a round", logarithmic=True)
        _lines(workers, pick(rows, "seconds", over="workers"), "seconds a round")
        peaks = [{**row, "over": "clients a round", "at": row["clients"]} for row in pick(rows, "peak, MiB")]
        _lines(memory, peaks, "peak memory, MiB")
        size.xaxis.set_major_locator(LogLocator())  # a mark at every width would be too many
        _name_models(size, pick(rows, "seconds", over="parameters", method="bare pass"))
        handles, labels = clients.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _lines(axes: Axes, points: Sequence[Row], what: str, *, logarithmic: bool = False) -> None:
    for method, style in LINES.items():
        for model in dict.fromkeys(row["model"] for row in points):
            own = pick(points, points[0]["what"], method=method, model=model)
            places, heights = [row["at"] for row in own], [median(row["values"]) for row in own]
            axes.plot(places, heights, linewidth=1.6, marker="o", markersize=3, **style)
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    else:
        axes.set_ylim(0, 1.1 * max(max(row["values"]) for row in points))
    axes.xaxis.set_major_locator(FixedLocator(sorted({row["at"] for row in points})))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel(points[0]["over"])
    axes.set_title(what, loc="left", fontsize=9, color=FAINT)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, pad=5)


def _name_models(axes: Axes, points: Sequence[Row]) -> None:
    for model in dict.fromkeys(row["model"] for row in points):
        last = [row for row in points if row["model"] == model][-1]
        place = (last["at"], median(last["values"]))
        axes.annotate(model, place, xytext=(6, 0), textcoords="offset points", color=FAINT, va="center")
