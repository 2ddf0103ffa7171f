"""Draw learning curves as text for the terminal: braille dots, eight to a character, or letters where all is ASCII."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.text import Text

from smofi.report.names import folded
from smofi.report.results import Band, History, Scale, bands, finite
from smofi.report.style import DIM, Look, looks

# The bit of each dot in a braille character, by row and column: U+2800 + bits.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def can_braille(encoding: str) -> bool:
    """Return whether a terminal with this encoding can show braille."""
    try:
        "⣿┤".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Canvas:
    """`width` x `height` characters; points are given in [0, 1] x [0, 1], the origin at the bottom left."""

    def __init__(self, width: int, height: int, *, braille: bool) -> None:
        self.width, self.height, self.braille = width, height, braille
        self.across, self.down = (2, 4) if braille else (1, 1)
        self._bits = [[0] * width for _ in range(height)]
        self._letters = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]

    def line(
        self, start: tuple[float, float], end: tuple[float, float], *, style: str, letter: str, every: int = 1
    ) -> list[tuple[int, int]]:
        """Draw a straight line; with `every` only every n-th dot of it. A line from a point to itself is a dot. Return
        the characters it goes through, by column and row, one after the other."""
        columns, lines = self.width * self.across - 1, self.height * self.down - 1
        x0, y0, x1, y1 = start[0] * columns, start[1] * lines, end[0] * columns, end[1] * lines
        steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        through = []
        for step in range(0, steps + 1, every):
            column, line = round(x0 + (x1 - x0) * step / steps), lines - round(y0 + (y1 - y0) * step / steps)
            x, y = column // self.across, line // self.down
            self._bits[y][x] |= DOTS[line % self.down][column % self.across]
            self.mark((x, y), style=style, letter=chr(0x2800 + self._bits[y][x]) if self.braille else letter)
            through.append((x, y))
        return through

    def mark(self, place: tuple[int, int], *, style: str, letter: str) -> None:
        column, row = place
        self._letters[row][column], self._styles[row][column] = letter, style

    def row(self, number: int) -> Text:
        return Text.assemble(*zip(self._letters[number], self._styles[number], strict=True))


def bar(done: float, width: int, *, unicode: bool) -> tuple[str, str]:
    full, empty = ("━", "─") if unicode else ("#", "-")
    filled = int(done * width)
    return full * filled, empty * (width - filled)


NARROWEST, WIDEST = 20, 100
"""Characters that curves take at least, with their axes, and at most where there is more room."""
MARKED = 10
"""Characters from one of a curve's glyphs to the next."""


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return round numbers (1, 2 or 5 times a power of ten apart) that enclose [low, high]."""
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
    """Draw the judged metric round by round, with axes and a legend; `width` and `height` include the axes. Of several
    seeds of a method, the mean is drawn, and the legend says so. `rounds` is for histories that have been thinned."""
    curves = bands(histories, partial=True)
    values = [value for curve in curves for value in finite(curve.mean)]
    if target is not None:
        values.append(target)
    braille, rows, metric = can_braille(encoding), height - 1, Scale.of(histories)
    marks = ticks(min(values), max(values), about=max(2, min(5, rows // 3)))
    if min(values) >= 0 and max(values) <= 1:
        marks = [mark for mark in marks if 0 <= mark <= 1]
    label = _formatter(marks, share=metric.share)
    margin = max(len(label(mark)) for mark in marks)
    canvas, last = Canvas(width - margin - 2, rows, braille=braille), max(len(curve.mean) for curve in curves)

    def up(value: float) -> float:
        return (value - marks[0]) / (marks[-1] - marks[0])

    if target is not None:
        canvas.line((0.0, up(target)), (1.0, up(target)), style=DIM, letter=".", every=4 if braille else 2)
    keys = looks([curve.name for curve in curves])
    paths = [_draw(canvas, curve, key, last, up) for curve, key in zip(curves, keys, strict=True)]
    if len(curves) > 1:
        # Every curve has its glyph at even distances, each in other columns, so that it is known without colour too.
        distance = max(MARKED, 2 * len(paths))
        for number, (path, key) in enumerate(zip(paths, keys, strict=True)):
            offset = number * distance // len(paths)
            by_column = {column: (column, row) for column, row in reversed(path) if column % distance == offset}
            for place in by_column.values() if by_column else path[-1:]:
                canvas.mark(place, style=key.colour, letter=key.glyph)
    labels = {round((rows - 1) * (1 - up(mark))): label(mark) for mark in marks}
    lines = [Text(f"{title}  " if title else "", style="bold") + Text(metric.name, style=DIM)]
    for number in range(rows):
        edge = ("┤" if number in labels else "│") if braille else "|"
        lines.append(Text(f"{labels.get(number, ''):>{margin}} ") + Text(edge, style=DIM) + canvas.row(number))
        lines[-1].rstrip()
    lines.append(Text(" " * (margin + 1)) + _round_axis(rounds or last, canvas.width, braille))
    entries = []
    for curve, key in zip(curves, keys, strict=True):
        ends_at = metric.text(known[-1]) if (known := finite(curve.mean)) else "no values"
        sample = ("⣤⣤" if len(curves) == 1 else f"⣤{key.glyph}⣤") if braille else key.glyph * 2
        entries.append((Text(sample, style=key.colour), f"{curve.name} {ends_at}"))
    if target is not None:
        entries.append((Text("⠄⠄" if braille else "..", style=DIM), f"target {metric.text(target)}"))
    lines += _legend(entries, width)
    if (seeds := max(curve.seeds for curve in curves)) > 1:
        lines.append(Text(f"each line is the mean of {seeds} seeds", style=DIM))
    return Text("\n").join(lines)


def _draw(canvas: Canvas, curve: Band, key: Look, rounds: int, up: Callable[[float], float]) -> list[tuple[int, int]]:
    """Draw a curve and return the characters it goes through. It goes on over rounds without an evaluation, and breaks
    where a value is no number."""
    path: list[tuple[int, int]] = []
    previous: tuple[float, float] | None = None
    for index, value in enumerate(curve.mean):
        if value is not None and not math.isfinite(value):
            previous = None
        elif value is not None:
            point = index / max(1, rounds - 1), up(value)
            path += canvas.line(previous or point, point, style=key.colour, letter=key.glyph)
            previous = point
    return path


def _formatter(marks: Sequence[float], *, share: bool) -> Callable[[float], str]:
    """Write marks with as many decimals as neighbours need to differ."""
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


def _legend(entries: Sequence[tuple[Text, str]], width: int) -> list[Text]:
    """Put entries side by side while they fit; a long name takes lines of its own."""
    lines: list[Text] = []
    for sample, words in entries:
        indent = len(sample) + 1
        first, *more = folded(words, width - indent)
        entry = sample + Text(f" {first}")
        if lines and not more and len(lines[-1]) + 3 + len(entry) <= width:
            lines[-1] += Text("   ") + entry
        else:
            lines += [entry, *(Text(" " * indent + line) for line in more)]
    return lines
