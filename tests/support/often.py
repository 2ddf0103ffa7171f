"""Which combinations of parameters are tested every time, and which by `make slow` only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest


def often(kept: Callable[..., bool], *axes: Iterable[Any]) -> list[Any]:
    """Every combination of one value of each, for `pytest.mark.parametrize`. Those that are not kept are slow.

    >>> [bool(one.marks) for one in often(lambda n: n < 2, range(4))]
    [False, False, True, True]
    """
    combinations = product(*axes)
    return [pytest.param(*one, marks=() if kept(*one) else pytest.mark.slow) for one in combinations]


def in_turn(first: Iterable[Any], second: Iterable[Any], *always: Any) -> Callable[[Any, Any], bool]:
    """Keeps each value of the first with one of the second, in turn, and some of the first with all.

    >>> kept = in_turn("abc", [1, 2], "c")
    >>> [(one, other) for one in "abc" for other in (1, 2) if kept(one, other)]
    [('a', 1), ('b', 2), ('c', 1), ('c', 2)]
    """
    ones, others = list(first), list(second)
    return lambda one, other: one in always or others.index(other) == ones.index(one) % len(others)
