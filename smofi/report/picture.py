"""Learning curves as a picture, PNG or SVG by the file's suffix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smofi.errors import InputError, refuse
from smofi.report.curves import Curve, finite
from smofi.report.progress import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart by colour-blind readers too, without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
INK, FAINT, GRID = "#24292f", "#6e7781", "#e7eaed"

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "smofi",
}


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The heights moved apart, each as little as possible, so that neighbours are at least `gap` from each other.

    >>> spread([1.0, 1.0, 5.0], gap=2.0)
    [0.0, 2.0, 5.0]
    """
    # Neighbours that collide form a cluster, laid out around the mean of where its members wanted to be.
    clusters: list[list[int]] = []

    def bottom(cluster: list[int]) -> float:
        return sum(heights[i] for i in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2

    for index in sorted(range(len(heights)), key=lambda i: heights[i]):
        clusters.append([index])
        while len(clusters) > 1 and bottom(clusters[-1]) < bottom(clusters[-2]) + gap * len(clusters[-2]):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    moved = {i: bottom(cluster) + gap * place for cluster in clusters for place, i in enumerate(cluster)}
    return [moved[index] for index in range(len(heights))]


def lonely(values: Sequence[float]) -> list[int]:
    """Where a value has no neighbour to draw a line to, and needs a dot to be seen.

    >>> lonely([0.5, math.nan, 0.6, 0.7])
    [0]
    """
    known = [False, *(math.isfinite(value) for value in values), False]
    return [i for i in range(len(values)) if known[i + 1] and not (known[i] or known[i + 2])]


def save(
    curves: Mapping[str, Curve],
    path: str | Path,
    *,
    target: float | None = None,
    title: str | None = None,
    label: str = "accuracy",
    percent: bool = True,
    hours: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """Draw the curves, one value a round from round 1, into a file; the same curves give the same bytes.

    With `hours`, when each round of each curve ends in virtual time, they are drawn over these instead.

    >>> import tempfile
    >>> save({"fedavg": [0.4, 0.7, 0.8]}, Path(tempfile.mkdtemp()) / "curves.svg").name
    'curves.svg'
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        refuse("path", str(path), "a file name that ends in .png or .svg")
    shown = {name: curve for name, curve in curves.items() if finite(curve)}
    if not shown:
        refuse("curves", dict(curves), "at least one curve with a number in it")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InputError("saving a picture needs matplotlib: pip install matplotlib") from missing

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 4.4), dpi=200, facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        _plot_all(axes, shown, hours)
        if target is not None:
            axes.axhline(target, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _frame(axes, label=label, percent=percent)
        if title:
            axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=12, parse_math=False)
        _name(axes, shown, target, percent)
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else {"Software": None})
    return path


def _plot_all(axes: Axes, curves: Mapping[str, Curve], hours: Mapping[str, Sequence[float]] | None) -> None:
    at: dict[str, Sequence[float]] = {name: range(1, len(curve) + 1) for name, curve in curves.items()}
    if hours:
        unit, in_an_hour = time_unit(max(hours[name][-1] for name in curves))
        at = {name: [in_an_hour * end for end in hours[name]] for name in curves}
    for number, (name, curve) in enumerate(curves.items()):
        _plot(axes, at[name], curve, COLOURS[number % len(COLOURS)])
    if hours:
        _over_time(axes, max(places[-1] for places in at.values()), unit)
    else:
        _over_rounds(axes, max(map(len, curves.values())))


def _plot(axes: Axes, at: Sequence[float], curve: Curve, colour: str) -> None:
    """The line goes on over rounds without an evaluation, and breaks where the accuracy is no number."""
    known = [(place, value) for place, value in zip(at, curve, strict=True) if value is not None]
    values = [value if math.isfinite(value) else math.nan for _, value in known]
    places = [place for place, _ in known]
    axes.plot(places, values, color=colour, linewidth=2, marker="o", markevery=lonely(values), clip_on=False)


def _over_rounds(axes: Axes, rounds: int) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    if rounds > 1:
        axes.set_xlim(1, rounds)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xlim(0, 2)
        axes.xaxis.set_major_locator(FixedLocator([1]))
    axes.set_xlabel("round")


def _over_time(axes: Axes, longest: float, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0, longest)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"{unit} on the clients' devices")


def _frame(axes: Axes, *, label: str, percent: bool) -> None:
    from matplotlib.ticker import PercentFormatter

    if percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(y=0.06)
    axes.set_ylabel(label)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, pad=6)


def _name(axes: Axes, curves: Mapping[str, Curve], target: float | None, percent: bool) -> None:
    """Names stand beside the ends of their lines instead of in a legend."""
    ends = [(name, finite(curve)[-1], COLOURS[i % len(COLOURS)]) for i, (name, curve) in enumerate(curves.items())]
    if target is not None:
        ends.append((f"target {100 * target:.3g}%" if percent else f"target {target:.3g}", target, FAINT))
    low, high = axes.get_ylim()
    heights = spread([(value - low) / (high - low) for _, value, _ in ends], gap=0.055)
    for (name, _, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            name,
            (1.0, height),
            xycoords="axes fraction",
            xytext=(8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            parse_math=False,
        )
