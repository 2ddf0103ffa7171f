"""Text that others chose, such as a client's name, made safe to show in a terminal, a log or a table."""

from __future__ import annotations

import math
from typing import Any

from smofi.errors import shortened

MOST_CHARACTERS = 300


def plain_text(text: Any, most: int = MOST_CHARACTERS) -> str:
    r"""One line of characters that can be seen; others are escaped, and what is too long loses its middle.

    >>> plain_text("ward 3\n\x1b[31mroot"), plain_text("Zürich \u202e"), plain_text("x" * 400, most=10)
    ('ward 3\\n\\x1b[31mroot', 'Zürich \\u202e', 'xxxxx ... xxxxx')
    """
    cut = shortened(str(text), most)
    return cut if cut.isprintable() else "".join(map(_visible, cut))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def finite(value: float | None) -> float | None:
    """A number that JSON can hold, None for any other.

    >>> finite(0.5), finite(float("nan")), finite(None)
    (0.5, None, None)
    """
    return float(value) if value is not None and math.isfinite(value) else None
