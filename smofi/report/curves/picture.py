"""Learning curves as a picture, PNG, SVG or PDF by the file's suffix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smofi.errors import refuse
from smofi.report.history import History, Scale
from smofi.report.numbers import three_digits, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import COLOURS, FAINT, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, DPI = (8.4, 4.4), 200


def save_curves(
    path: str | Path,
    histories: Sequence[History],
    *,
    target: float | None = None,
    title: str | None = None,
    over_hours: bool = False,
) -> Path:
    """Draw the judged metric over rounds, or over the hours of virtual time, into a file; the same histories give the
    same bytes.

    >>> import tempfile
    >>> save_curves(Path(tempfile.mkdtemp()) / "curves.svg", [History("fedavg", [0.4, 0.7, 0.8])]).name
    'curves.svg'
    """
    measured = [history for history in histories if history.measured]
    if not measured:
        refuse("histories", list(histories), "at least one history with a number in it")

    def compose(figure: Figure) -> None:
        axes = figure.add_subplot()
        (_plot_over_hours if over_hours else _plot_over_rounds)(axes, measured)
        if target is not None:
            axes.axhline(target, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        scale = Scale.of(measured)
        _frame(axes, scale)
        if title:
            axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=12, parse_math=False)
        _name_lines(axes, measured, scale, target)

    return save_picture(path, compose, SIZE, padding={}, dpi=DPI)


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


def isolated(values: Sequence[float]) -> list[int]:
    """Where a value has no neighbour to draw a line to, and needs a dot to be seen.

    >>> isolated([0.5, math.nan, 0.6, 0.7])
    [0]
    """
    known = [False, *(math.isfinite(value) for value in values), False]
    return [i for i in range(len(values)) if known[i + 1] and not (known[i] or known[i + 2])]


def _plot_over_rounds(axes: Axes, histories: Sequence[History]) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    for number, history in enumerate(histories):
        _plot(axes, range(1, history.rounds + 1), history, COLOURS[number % len(COLOURS)])
    rounds = max(history.rounds for history in histories)
    if rounds > 1:
        axes.set_xlim(1, rounds)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xlim(0, 2)
        axes.xaxis.set_major_locator(FixedLocator([1]))
    axes.set_xlabel("round")


def _plot_over_hours(axes: Axes, histories: Sequence[History]) -> None:
    from matplotlib.ticker import MaxNLocator

    longest = max(3600 * history.hours[-1] for history in histories)
    unit = time_unit(longest)
    for number, history in enumerate(histories):
        ends = [3600 * hours / unit.seconds for hours in history.hours]
        _plot(axes, ends, history, COLOURS[number % len(COLOURS)])
    axes.set_xlim(0, longest / unit.seconds)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"{unit.name} on the clients' devices")


def _plot(axes: Axes, places: Sequence[float], history: History, colour: str) -> None:
    """The line goes on over rounds without an evaluation, and breaks where a value is no number."""
    known = [(place, value) for place, value in zip(places, history.values, strict=True) if value is not None]
    values = [value if math.isfinite(value) else math.nan for _, value in known]
    axes.plot(
        [place for place, _ in known],
        values,
        color=colour,
        linewidth=2,
        marker="o",
        markevery=isolated(values),
        clip_on=False,
    )


def _frame(axes: Axes, scale: Scale) -> None:
    from matplotlib.ticker import PercentFormatter

    if scale.share:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(y=0.06)
    axes.set_ylabel(scale.name, parse_math=False)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, pad=6)


def _name_lines(axes: Axes, histories: Sequence[History], scale: Scale, target: float | None) -> None:
    """Names stand beside the ends of their lines instead of in a legend."""
    ends = [
        (history.name, history.measured[-1], COLOURS[number % len(COLOURS)]) for number, history in enumerate(histories)
    ]
    if target is not None:
        shown = f"{three_digits(100 * target)}%" if scale.share else scale.text(target)
        ends.append((f"target {shown}", target, FAINT))
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
