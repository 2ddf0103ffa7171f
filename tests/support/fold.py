"""The order in which a round's rows, and its workers, are added: a plain definition, to hold the code against."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def fold(strip: Sequence[Tensor | None]) -> Tensor | None:
    """The strip is folded in half, end over beginning, until one place is left."""
    if len(strip) == 1:
        return strip[0]
    half = 1
    while 2 * half < len(strip):
        half *= 2
    full = [*strip, *[None] * (2 * half - len(strip))]
    return fold([plus(full[place], full[2 * half - 1 - place]) for place in range(half)])


def plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Nothing and a number is that number, bit by bit."""
    return one if other is None else other if one is None else one + other
