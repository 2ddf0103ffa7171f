"""A small canvas of characters: braille dots, eight to a character, or letters where only ASCII can be shown."""

from __future__ import annotations

import math

from rich.text import Text

# The bit of each dot in a braille character, by row and column: U+2800 + bits.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def can_braille(encoding: str) -> bool:
    """Whether a terminal with this encoding can show braille.

    >>> can_braille("utf-8"), can_braille("latin-1")
    (True, False)
    """
    try:
        "⣿┤".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Canvas:
    """`width` x `height` characters; points are given in [0, 1] x [0, 1], the origin at the bottom left.

    >>> canvas = Canvas(2, 1, braille=True)
    >>> canvas.line((0.0, 0.0), (1.0, 0.0), style="red", letter="*")
    [(0, 0), (0, 0), (1, 0), (1, 0)]
    >>> canvas.row(0).plain
    '⣀⣀'
    """

    def __init__(self, width: int, height: int, *, braille: bool) -> None:
        self.width, self.height, self.braille = width, height, braille
        self.across, self.down = (2, 4) if braille else (1, 1)
        self._bits = [[0] * width for _ in range(height)]
        self._letters = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]

    def _dot(self, column: int, line: int, style: str, letter: str) -> None:
        x, y = column // self.across, line // self.down
        self._bits[y][x] |= DOTS[line % self.down][column % self.across]
        self._letters[y][x] = chr(0x2800 + self._bits[y][x]) if self.braille else letter
        self._styles[y][x] = style

    def line(
        self, start: tuple[float, float], end: tuple[float, float], *, style: str, letter: str, every: int = 1
    ) -> list[tuple[int, int]]:
        """A straight line; with `every` only every n-th dot of it. A line from a point to itself is a dot. Returned are
        the characters it goes through, by column and row, one after the other."""
        columns, lines = self.width * self.across - 1, self.height * self.down - 1
        x0, y0, x1, y1 = start[0] * columns, start[1] * lines, end[0] * columns, end[1] * lines
        steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        through = []
        for step in range(0, steps + 1, every):
            column, line = round(x0 + (x1 - x0) * step / steps), lines - round(y0 + (y1 - y0) * step / steps)
            self._dot(column, line, style, letter)
            through.append((column // self.across, line // self.down))
        return through

    def mark(self, place: tuple[int, int], *, style: str, letter: str) -> None:
        """Put a letter in the place of a character, dots or not."""
        column, row = place
        self._letters[row][column], self._styles[row][column] = letter, style

    def row(self, number: int) -> Text:
        """One row of characters, from the top."""
        pieces = zip(self._letters[number], self._styles[number], strict=True)
        return Text.assemble(*pieces)
