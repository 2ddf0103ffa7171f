"""Learning curves as text, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

from smofi.errors import check_count, refuse
from smofi.report.bands import mean_curves
from smofi.report.canvas import Canvas, can_braille
from smofi.report.history import History, Scale
from smofi.report.names import folded
from smofi.report.style import DIM, Look, looks

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
