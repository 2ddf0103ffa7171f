"""Learning curves as a picture, PNG, SVG or PDF by the file's suffix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from smofi.errors import refuse
from smofi.report.bands import Band, bands, mean_curves
from smofi.report.heading import put_heading
from smofi.report.history import History, Scale
from smofi.report.names import folded
from smofi.report.numbers import three_digits, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import FAINT, GRID, Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, DPI = (8.4, 4.4), 200
TARGET: Any = (0, (4, 3))
SHADE = 0.18  # of a band
MARKS = 8  # along each curve, where there are several
LONGEST_NAME = 24  # characters of a line beside the curves
LINE = 0.055  # of the height of the curves, for a line of text
SAMPLE = (0.025, 0.065)  # where beside the curves, as a share of their width, a sample of each line is


def save_curves(
    path: str | Path,
    histories: Sequence[History],
    *,
    target: float | None = None,
    title: str | None = None,
    below: str = "",
    over_hours: bool = False,
) -> Path:
    """Draw the judged metric over rounds, or over the hours of virtual time, into a file; the same histories give the
    same bytes. Several seeds of a method become a line, their mean, and a band. `below` stands below the title.

    >>> import tempfile
    >>> save_curves(Path(tempfile.mkdtemp()) / "curves.svg", [History("fedavg", [0.4, 0.7, 0.8])]).name
    'curves.svg'
    """
    measured = [history for history in histories if history.measured]
    if not measured:
        refuse("histories", list(histories), "at least one history with a number in it")

    drawn, curves = bands(measured, partial=True), mean_curves(measured)
    several = max(band.seeds for band in drawn)
    note = f"lines: mean of {several} seeds; bands: one standard deviation either side" if several > 1 else ""

    def compose(figure: Figure) -> None:
        axes = figure.add_subplot()
        keys = looks([curve.name for curve in curves])
        keys = [keys[0].alone] if len(keys) == 1 else keys
        (_plot_over_hours if over_hours else _plot_over_rounds)(axes, drawn, keys)
        if target is not None:
            axes.axhline(target, color=FAINT, linewidth=1, linestyle=TARGET, zorder=1)
        _frame(axes, Scale.of(measured))
        if title:
            put_heading(figure, title, "; ".join(filter(None, (below, note))))
        elif note:
            put_heading(figure, note)
        _name_lines(axes, curves, keys, target)

    return save_picture(path, compose, SIZE, padding={}, dpi=DPI)


def spread(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """The heights moved apart, each as little as possible, so that labels of these sizes do not overlap.

    >>> spread([1.0, 1.0, 5.0], sizes=[2.0, 2.0, 2.0])
    [0.0, 2.0, 5.0]
    """
    # Neighbours that collide form a cluster, laid out around the mean of where its members wanted to be.
    clusters: list[list[int]] = []

    def places(cluster: list[int]) -> list[float]:
        above = [0.0]  # from the first to each
        for lower, upper in pairwise(cluster):
            above.append(above[-1] + (sizes[lower] + sizes[upper]) / 2)
        first = fmean(heights[index] - distance for index, distance in zip(cluster, above, strict=True))
        return [first + distance for distance in above]

    for index in sorted(range(len(heights)), key=lambda i: heights[i]):
        clusters.append([index])
        while len(clusters) > 1:
            lower, upper = clusters[-2], clusters[-1]
            if places(upper)[0] - places(lower)[-1] >= (sizes[lower[-1]] + sizes[upper[0]]) / 2:
                break
            clusters[-2:] = [lower + upper]
    moved = {i: place for cluster in clusters for i, place in zip(cluster, places(cluster), strict=True)}
    return [moved[index] for index in range(len(heights))]


def isolated(values: Sequence[float]) -> list[int]:
    """Where a value has no neighbour to draw a line to, and needs a dot to be seen.

    >>> isolated([0.5, math.nan, 0.6, 0.7])
    [0]
    """
    known = [False, *(math.isfinite(value) for value in values), False]
    return [i for i in range(len(values)) if known[i + 1] and not (known[i] or known[i + 2])]


def marked(values: Sequence[float], number: int, among: int) -> list[int]:
    """Where a curve has its marker: at even distances, and elsewhere than the curves of other numbers.

    >>> marked([0.5] * 80, number=1, among=2)
    [5, 15, 25, 35, 45, 55, 65, 75]
    """
    if among == 1:
        return isolated(values)
    distance = max(1, len(values) // MARKS)
    return sorted({*isolated(values), *range(number * distance // among, len(values), distance)})


def _plot_over_rounds(axes: Axes, methods: Sequence[Band], keys: Sequence[Look]) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    for number, band in enumerate(methods):
        _plot(axes, range(1, len(band.mean) + 1), band, keys, number)
    rounds = max(len(band.mean) for band in methods)
    if rounds > 1:
        axes.set_xlim(1, rounds)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xlim(0, 2)
        axes.xaxis.set_major_locator(FixedLocator([1]))
    axes.set_xlabel("round")


def _plot_over_hours(axes: Axes, methods: Sequence[Band], keys: Sequence[Look]) -> None:
    from matplotlib.ticker import MaxNLocator

    longest = max(3600 * band.hours[-1] for band in methods)
    unit = time_unit(longest)
    for number, band in enumerate(methods):
        ends = [3600 * hours / unit.seconds for hours in band.hours]
        _plot(axes, ends, band, keys, number)
    axes.set_xlim(0, longest / unit.seconds)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"{unit.name} on the clients' devices")


def _plot(axes: Axes, places: Sequence[float], band: Band, keys: Sequence[Look], number: int) -> None:
    """The line goes on over rounds without an evaluation, and breaks where a value is no number; so does the band."""
    known = [places[point] for point in band.points]
    low, values, high = (_finite(band, line) for line in (band.low, band.mean, band.high))
    if band.seeds > 1:
        axes.fill_between(known, low, high, color=keys[number].colour, alpha=SHADE, linewidth=0, zorder=1)
    axes.plot(known, values, **keys[number].line, markevery=marked(values, number, len(keys)), clip_on=False)


def _finite(band: Band, values: Sequence[float | None]) -> list[float]:
    """What is drawn of a line, NaN where it breaks."""
    found = (values[point] for point in band.points)
    return [value if value is not None and math.isfinite(value) else math.nan for value in found]


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


def _name_lines(axes: Axes, histories: Sequence[History], keys: Sequence[Look], target: float | None) -> None:
    """Names stand beside the ends of their lines instead of in a legend, with a sample of the line if there are
    several."""
    ends = [
        ("\n".join(folded(history.name, LONGEST_NAME)), history.measured[-1], look.colour)
        for history, look in zip(histories, keys, strict=True)
    ]
    if target is not None:
        scale = Scale.of(histories)
        shown = f"{three_digits(100 * target)}%" if scale.share else scale.text(target)
        ends.append((f"target {shown}", target, FAINT))
    low, high = axes.get_ylim()
    heights = spread(
        [(value - low) / (high - low) for _, value, _ in ends], [LINE * (1 + name.count("\n")) for name, _, _ in ends]
    )
    several = len(histories) > 1
    for number, ((name, _, colour), height) in enumerate(zip(ends, heights, strict=True)):
        axes.annotate(
            name,
            (1.0 + (SAMPLE[1] if several else 0.0), height),
            xycoords="axes fraction",
            xytext=(8, 0),
            textcoords="offset points",
            color=colour,
            va="center_baseline",
            linespacing=1.0,
            parse_math=False,
        )
        if several:
            look = keys[number].line if number < len(keys) else {"color": FAINT, "linestyle": TARGET}
            axes.plot(
                [1.0 + share for share in (SAMPLE[0], fmean(SAMPLE), SAMPLE[1])],
                [height] * 3,
                transform=axes.transAxes,
                clip_on=False,
                **look,
                markevery=[1],
            )
