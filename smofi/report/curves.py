"""Learning curves, as a picture and as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from smofi.errors import check_count, refuse
from smofi.report.canvas import Canvas, can_braille
from smofi.report.heading import put_heading
from smofi.report.history import Band, History, Scale, bands, mean_curves
from smofi.report.names import folded
from smofi.report.numbers import three_digits, time_unit
from smofi.report.saving import save_picture
from smofi.report.style import DIM, FAINT, GRID, Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --------------------------------------------------------------------------------------------------------------------
# A curve that grows, in as many places as a terminal can tell apart.


COLUMNS = 200
"""Two dots to a character, in the widest of the live display's curves."""


class Thinned:
    """A run's values for a picture with room for `rounds` rounds: as they are, None for those to come; in a long
    run, the lowest and the highest of each column. Every round is looked at once.

    >>> Thinned(History("fedavg", [0.5, None]), rounds=4).values()
    [0.5, None, None, None]
    """

    def __init__(self, history: History, rounds: int) -> None:
        self.history, self.rounds = history, rounds
        self.columns: list[list[float]] = [[] for _ in range(min(rounds, COLUMNS))]
        self.most = 1 if rounds <= COLUMNS else 2
        self.seen = 0

    def values(self) -> list[float | None]:
        """Of the rounds so far, and a place for each that is to come."""
        for number in range(self.seen, self.history.rounds):
            if (value := self.history.values[number]) is not None:
                column = self.columns[number * len(self.columns) // self.rounds]
                column.append(value)
                if len(column) > self.most:
                    column.remove(median(column))  # of three, it is neither the lowest nor the highest
        self.seen = self.history.rounds
        return [place for column in self.columns for place in [*column, None, None][: self.most]]


# --------------------------------------------------------------------------------------------------------------------
# Learning curves as text, for the terminal.

NARROWEST = 20
"""Characters that curves take at least, with their axes."""
MARKED = 10
"""Characters from one of a curve's glyphs to the next."""


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) that enclose [low, high].

    >>> ticks(0.12, 0.87, about=4)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def draw_curves(
    histories: Sequence[History],
    *,
    target: float | None = None,
    title: str | None = None,
    width: int = 76,
    height: int = 16,
    encoding: str = "utf-8",
    rounds: int | None = None,
) -> Text:
    """The judged metric round by round, with axes and a legend; `width` and `height` include the axes. Of several seeds
    of a method, the mean is drawn, and the legend says so. `rounds` is for histories that have been thinned.

    >>> print(draw_curves([History("fedavg", [0.0, 1.0])], width=20, height=4, encoding="ascii"))
    accuracy
    100% |          oooo
     50% |    oooooo
      0% |oooo
         +round 1------2
    oo fedavg 100.0%
    """
    check_count("width", width, low=NARROWEST)
    check_count("height", height, low=4)
    seeds = len({history.seed for history in histories})
    histories = mean_curves(histories)
    values = [value for history in histories for value in history.measured]
    if not values:
        refuse("histories", list(histories), "at least one history with a number in it")
    if target is not None:
        values.append(target)
    braille = can_braille(encoding)
    rows = height - 1
    marks = _marks(values, rows)
    metric = Scale.of(histories)
    label = _formatter(marks, share=metric.share)
    margin = max(len(label(mark)) for mark in marks)
    canvas = Canvas(width - margin - 2, rows, braille=braille)
    scale = _Places(max(history.rounds for history in histories), marks[0], marks[-1])
    if target is not None:
        level = scale.height(target)
        canvas.line((0.0, level), (1.0, level), style=DIM, letter=".", every=4 if braille else 2)
    keys = looks([history.name for history in histories])
    paths = [_draw_curve(canvas, history, scale, key) for history, key in zip(histories, keys, strict=True)]
    if len(histories) > 1:
        _mark_curves(canvas, paths, keys)
    labels = {round((rows - 1) * (1 - scale.height(mark))): label(mark) for mark in marks}
    lines = [Text(f"{title}  " if title else "", style="bold") + Text(metric.name, style=DIM)]
    for number in range(rows):
        edge = ("┤" if number in labels else "│") if braille else "|"
        lines.append(Text(f"{labels.get(number, ''):>{margin}} ") + Text(edge, style=DIM) + canvas.row(number))
        lines[-1].rstrip()
    lines.append(Text(" " * (margin + 1)) + _round_axis(rounds or scale.rounds, canvas.width, braille))
    legend = _fold(_legend(histories, keys, target, braille), width)
    if seeds > 1:
        legend.append(Text(f"each line is the mean of {seeds} seeds", style=DIM))
    return Text("\n").join([*lines, *legend])


class _Places(NamedTuple):
    """Where on the canvas, from 0 to 1, a round and a value are."""

    rounds: int
    low: float
    high: float

    def height(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def point(self, index: int, value: float) -> tuple[float, float]:
        return index / max(1, self.rounds - 1), self.height(value)


def _draw_curve(canvas: Canvas, history: History, scale: _Places, key: Look) -> list[tuple[int, int]]:
    """The characters that the curve goes through."""
    path: list[tuple[int, int]] = []
    previous: tuple[float, float] | None = None
    for index, value in enumerate(history.values):
        if value is None:  # the line goes on to the next round that has a value
            continue
        if not math.isfinite(value):
            previous = None
            continue
        point = scale.point(index, value)
        path += canvas.line(previous or point, point, style=key.colour, letter=key.glyph)
        previous = point
    return path


def _mark_curves(canvas: Canvas, paths: Sequence[Sequence[tuple[int, int]]], keys: Sequence[Look]) -> None:
    """Every curve has its glyph at even distances, each in other columns, so that it is known without colour too and
    seen below another."""
    distance = max(MARKED, 2 * len(paths))
    for number, (path, key) in enumerate(zip(paths, keys, strict=True)):
        offset = number * distance // len(paths)
        by_column = {column: (column, row) for column, row in reversed(path) if column % distance == offset}
        for place in by_column.values() if by_column else path[-1:]:
            canvas.mark(place, style=key.colour, letter=key.glyph)


def _marks(values: Sequence[float], rows: int) -> list[float]:
    marks = ticks(min(values), max(values), about=max(2, min(5, rows // 3)))
    if min(values) >= 0 and max(values) <= 1:
        return [mark for mark in marks if 0 <= mark <= 1]
    return marks


def _formatter(marks: Sequence[float], *, share: bool) -> Callable[[float], str]:
    """As many decimals as neighbouring marks need to differ."""
    if max(abs(mark) for mark in marks) >= 1e5:
        return lambda mark: f"{mark:.3g}"
    step = (100 if share else 1) * (marks[1] - marks[0])
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return lambda mark: f"{mark:.{decimals}{'%' if share else 'f'}}"


def _round_axis(last: int, width: int, braille: bool) -> Text:
    corner, dash = ("└", "─") if braille else ("+", "-")
    axis = [dash] * width
    wanted = [1] if last == 1 else [1, *(round(1 + (last - 1) * quarter / 4) for quarter in (1, 2, 3)), last]
    taken = -1
    for number in wanted:
        text = str(number) if number > 1 else "round 1"
        centre = 0 if last == 1 else round((width - 1) * (number - 1) / (last - 1))
        start = min(max(0, centre - len(text) // 2), width - len(text)) if number > 1 else 0
        clear_of_last = number == last or start + len(text) + 1 < width - len(str(last))
        if start > taken and clear_of_last:
            axis[start : start + len(text)] = text
            taken = start + len(text)
    return Text(corner + "".join(axis), style=DIM)


def _legend(histories: Sequence[History], keys: Sequence[Look], target: float | None, braille: bool) -> list[_Entry]:
    metric, entries = Scale.of(histories), []
    for history, key in zip(histories, keys, strict=True):
        ends_at = metric.text(history.measured[-1]) if history.measured else "no values"
        sample = ("⣤⣤" if len(histories) == 1 else f"⣤{key.glyph}⣤") if braille else key.glyph * 2
        entries.append(_Entry(Text(sample, style=key.colour), history.name, ends_at))
    if target is not None:
        entries.append(_Entry(Text("⠄⠄" if braille else "..", style=DIM), "target", metric.text(target)))
    return entries


class _Entry(NamedTuple):
    """Of the legend: how a line looks, and what it is."""

    sample: Text
    name: str
    value: str

    def lines(self, width: int) -> list[Text]:
        """In as many lines as the name needs."""
        indent = len(self.sample) + 1
        first, *more = folded(f"{self.name} {self.value}", width - indent)
        return [self.sample + Text(f" {first}"), *(Text(" " * indent + line) for line in more)]


def _fold(entries: Sequence[_Entry], width: int) -> list[Text]:
    lines: list[Text] = []
    for entry in entries:
        first, *more = entry.lines(width)
        if lines and not more and len(lines[-1]) + 3 + len(first) <= width:
            lines[-1] += Text("   ") + first
        else:
            lines += [first, *more]
    return lines


# --------------------------------------------------------------------------------------------------------------------
# Learning curves as a picture, PNG, SVG or PDF by the file's suffix.

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
