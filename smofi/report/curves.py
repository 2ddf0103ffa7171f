"""Learning curves as text, for the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from rich.text import Text

from smofi.errors import check_count, refuse
from smofi.report.canvas import LETTERS, Canvas, can_braille

Curve: TypeAlias = Sequence[float | None]

STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red")
FAINT = "bright_black"


def finite(curve: Curve) -> list[float]:
    """The values a curve has: None is a round without an evaluation, NaN and infinities are gaps in it.

    >>> finite([0.5, None, float("nan"), 1.0])
    [0.5, 1.0]
    """
    return [value for value in curve if value is not None and math.isfinite(value)]


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


def draw(
    curves: Mapping[str, Curve],
    *,
    target: float | None = None,
    title: str | None = None,
    label: str = "accuracy",
    percent: bool = True,
    width: int = 76,
    height: int = 16,
    encoding: str | None = None,
) -> Text:
    """The curves, one value a round from round 1, with axes and a legend; `width` and `height` count the axes in.

    >>> print(draw({"fedavg": [0.0, 1.0]}, width=20, height=4, encoding="ascii"))
    accuracy
    100% |          ****
     50% |    ******
      0% |****
         +round 1------2
    ** fedavg 100.0%
    """
    check_count("width", width, low=20)
    check_count("height", height, low=4)
    values = [value for curve in curves.values() for value in finite(curve)]
    if not values:
        refuse("curves", dict(curves), "at least one curve with a number in it")
    if target is not None:
        values.append(target)
    braille = can_braille(encoding or getattr(sys.stdout, "encoding", None) or "ascii")

    rows = height - 1
    marks = ticks(min(values), max(values), about=max(2, min(5, rows // 3)))
    if percent and min(values) >= 0 and max(values) <= 1:
        marks = [mark for mark in marks if 0 <= mark <= 1]
    shown = _formatter(marks, percent)
    margin = max(len(shown(mark)) for mark in marks)
    canvas = Canvas(width - margin - 2, rows, braille=braille)

    last = max(len(curve) for curve in curves.values())
    bottom, span = marks[0], marks[-1] - marks[0]

    def place(index: int, value: float) -> tuple[float, float]:
        return index / max(1, last - 1), (value - bottom) / span

    if target is not None:
        level = place(0, target)[1]
        canvas.line((0.0, level), (1.0, level), style=FAINT, letter=".", every=4 if braille else 2)
    keys = [(STYLES[i % len(STYLES)], LETTERS[i % len(LETTERS)]) for i in range(len(curves))]
    for curve, (style, letter) in zip(curves.values(), keys, strict=True):
        previous: tuple[float, float] | None = None
        for index, value in enumerate(curve):
            if value is None:  # the line goes on to the next round that has a value
                continue
            if not math.isfinite(value):
                previous = None
                continue
            point = place(index, value)
            canvas.line(previous or point, point, style=style, letter=letter)
            previous = point

    at_row = {round((rows - 1) * (1 - place(0, mark)[1])): shown(mark) for mark in marks}
    lines = [Text(f"{title}  " if title else "", style="bold") + Text(label, style=FAINT)]
    for number in range(rows):
        edge = ("┤" if number in at_row else "│") if braille else "|"
        lines.append(Text(f"{at_row.get(number, ''):>{margin}} ") + Text(edge, style=FAINT) + canvas.row(number))
        lines[-1].rstrip()
    lines.append(Text(" " * (margin + 1)) + _round_axis(last, canvas.width, braille))
    entries = _legend(curves, keys, target, percent, braille)
    return Text("\n").join([*lines, *_fold(entries, width)])


def _formatter(marks: Sequence[float], percent: bool) -> Callable[[float], str]:
    if max(abs(mark) for mark in marks) >= 1e5:
        return lambda mark: f"{mark:.3g}"
    scale, sign = (100.0, "%") if percent else (1.0, "")
    step = scale * (marks[1] - marks[0])
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return lambda mark: f"{scale * mark:.{decimals}f}{sign}"


def _round_axis(last: int, width: int, braille: bool) -> Text:
    corner, dash = ("└", "─") if braille else ("+", "-")
    axis = [dash] * width
    wanted = [1] if last == 1 else [1, *(round(1 + (last - 1) * part / 4) for part in (1, 2, 3)), last]
    taken = -1
    for number in wanted:
        text = str(number) if number > 1 else "round 1"
        centre = 0 if last == 1 else round((width - 1) * (number - 1) / (last - 1))
        start = min(max(0, centre - len(text) // 2), width - len(text)) if number > 1 else 0
        clear_of_last = number == last or start + len(text) + 1 < width - len(str(last))
        if start > taken and clear_of_last:
            axis[start : start + len(text)] = text
            taken = start + len(text)
    return Text(corner + "".join(axis), style=FAINT)


def _legend(
    curves: Mapping[str, Curve],
    keys: Sequence[tuple[str, str]],
    target: float | None,
    percent: bool,
    braille: bool,
) -> list[Text]:
    def shown(value: float) -> str:
        return f"{100 * value:.1f}%" if percent else f"{value:.4g}"

    entries = []
    for (name, curve), (style, letter) in zip(curves.items(), keys, strict=True):
        known = finite(curve)
        ends_at = shown(known[-1]) if known else "no values"
        entries.append(Text("⣤⣤" if braille else letter * 2, style=style) + Text(f" {name} {ends_at}", style=""))
    if target is not None:
        entries.append(Text("⠄⠄" if braille else "..", style=FAINT) + Text(f" target {shown(target)}", style=""))
    return entries


def _fold(entries: Sequence[Text], width: int) -> list[Text]:
    lines: list[Text] = []
    for entry in entries:
        if lines and len(lines[-1]) + 3 + len(entry) <= width:
            lines[-1] += Text("   ") + entry
        else:
            lines.append(entry)
    return lines
