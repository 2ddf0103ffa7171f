"""Seeds as text."""

from __future__ import annotations

import re

from smofi.errors import check_seed, refuse


def read_seeds(field: str, text: str) -> tuple[int, ...]:
    """Ranges and single ones, each once.

    >>> read_seeds("seeds", "0-2,5")
    (0, 1, 2, 5)
    """
    found: dict[int, None] = {}
    for part in text.replace(" ", "").split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if not ends or int(ends[2] or ends[1]) < int(ends[1]) or int(ends[2] or 0) - int(ends[1]) > 1000:
            refuse(field, text, "seeds such as 0-2 or 0,3,5")
        found |= dict.fromkeys(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(check_seed(field, seed) for seed in found)
