"""Several seeds: how they are written, and read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from smofi.errors import check_seed, refuse
from smofi.settings.checks import Check

MOST = 1000
ACCEPTED = "seeds such as 0-2 or 0,3,5, each a whole number >= 0 and given once"


def read_seeds(field: str, value: Any) -> tuple[int, ...]:
    """The seeds that a text, a number or a list of them stands for, in the order given.

    >>> read_seeds("seeds", "0-2"), read_seeds("seeds", [7, "0-1"]), read_seeds("seeds", "0,3,5")
    ((0, 1, 2), (7, 0, 1), (0, 3, 5))
    """
    found: list[int] = []
    for seed in _each(field, value):
        found.append(check_seed(field, seed))
        if len(found) > MOST:
            refuse(field, value, f"at most {MOST} seeds")
    if not found or len(set(found)) < len(found):
        refuse(field, value, ACCEPTED)
    return tuple(found)


def _each(field: str, value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(item, str):
            yield item
            continue
        for part in "".join(item.split()).split(","):
            span = re.fullmatch(r"(\d{1,40})(?:-(\d{1,40}))?", part)
            if not span or int(span[2] or span[1]) < int(span[1]):
                refuse(field, item, ACCEPTED)
            yield from range(int(span[1]), int(span[2] or span[1]) + 1)


several_seeds = Check(read_seeds)


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds as they are written, neighbours that follow each other as a range.

    >>> seeds_text([0, 1, 2]), seeds_text([0, 3, 5]), seeds_text([4]), seeds_text([7, 0, 1, 2])
    ('0-2', '0,3,5', '4', '7,0-2')
    """
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
