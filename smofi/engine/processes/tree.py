"""The order of every sum over a round's rows: one binary tree, whoever computes which rows.

The rows lie on a strip, those with the most steps first, and the strip is folded in half, end over beginning, until one
place is left. What comes to lie on each other is added:

    0  1  2  3  4  5  6  7        seven rows and an empty place
    0+7   1+6   2+5   3+4         4 workers: one place each
    (0+7)+(3+4)   (1+6)+(2+5)     2 workers
    ((0+7)+(3+4)) + ((1+6)+(2+5))

A worker has the rows that lie on its place, so that 1, 2, 4, 8, ... workers add in the same order and get the same
bits. At every step, their numbers of active rows differ by one at most.

An empty place is -0.0 where it has to be a number: x + -0.0 is x to the bit, for x = -0.0 too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

NOTHING = -0.0
"""What does not change a sum."""


def deal(steps: Sequence[int], workers: int) -> list[list[int]]:
    """Rows for each worker, given the numbers of steps of all: back and forth, those with the most steps first.

    >>> deal([5, 1, 4, 2, 3], workers=2)
    [[0, 3, 1], [2, 4]]
    """
    order = sorted(range(len(steps)), key=lambda row: (-steps[row], row))
    dealt: list[list[int]] = [[] for _ in range(workers)]
    for place, row in enumerate(order):
        turn, seat = divmod(place, workers)
        dealt[seat if turn % 2 == 0 else workers - 1 - seat].append(row)
    return dealt


def mirrored(place: int, count: int) -> int:
    """Which place lies on this one, or under it, when a strip of `count` places is folded; it may be an empty one.

    >>> [mirrored(place, 6) for place in range(6)]
    [7, 6, 5, 4, 3, 2]
    """
    return (1 << (count - 1).bit_length()) - 1 - place


class Branch:
    """The part of the tree that one worker adds up: its rows, neighbours in the tree one after the other.

    >>> Branch([50, 51, 52, 53, 54]).rows  # (50 + (53 + 54)) + (51 + 52): what lies on the strip is folded twice
    [50, 53, 54, 51, 52]
    """

    def __init__(self, strip: Sequence[int]) -> None:
        """`strip` has the worker's rows as they were dealt to it."""
        bits = (len(strip) - 1).bit_length()
        self.leaves = {row: _leaf(place, bits) for place, row in enumerate(strip)}
        self.rows = sorted(strip, key=self.leaves.__getitem__)

    @classmethod
    def of(cls, steps: Sequence[int], workers: int, rank: int) -> Branch:
        """That of one of the workers, given the numbers of steps of all rows."""
        return cls(deal(steps, workers)[rank])

    def in_order(self, rows: Sequence[int]) -> list[int]:
        """Some of the rows, as they are to be added."""
        return sorted(rows, key=self.leaves.__getitem__)

    def joins(self, rows: Sequence[int]) -> list[int]:
        """How to add these rows, given in order, to a stack: after each, how often the two on top become their sum.

        >>> Branch([0, 1, 2, 3, 4]).joins([0, 3, 4, 1, 2])
        [0, 0, 2, 0, 2]
        """
        leaves = [self.leaves[row] for row in rows]
        # the height at which neighbours on the stack meet: what meets below the next row's branch is joined before it
        heights: list[int] = []
        joins = []
        for leaf, following in pairwise(leaves):
            height, before = (leaf ^ following).bit_length(), len(heights)
            while heights and heights[-1] < height:
                heights.pop()
            joins.append(before - len(heights))
            heights.append(height)
        return [*joins, len(heights)] if leaves else []

    def subtrees(self, most: int) -> list[list[int]]:
        """The rows in whole subtrees of at most `most` rows each.

        >>> Branch([0, 1, 2, 3, 4]).subtrees(3)
        [[0, 3, 4], [1, 2]]
        """
        return _subtrees(self.rows, self.leaves, most)


def _subtrees(rows: list[int], leaves: dict[int, int], most: int) -> list[list[int]]:
    if len(rows) <= most:
        return [rows]
    # the highest bit in which leaves differ tells the two halves apart
    bit = (leaves[rows[0]] ^ leaves[rows[-1]]).bit_length() - 1
    cut = next(place for place, row in enumerate(rows) if leaves[row] >> bit & 1)
    return _subtrees(rows[:cut], leaves, most) + _subtrees(rows[cut:], leaves, most)


def _leaf(place: int, bits: int) -> int:
    """Where in the tree a place of the strip is: the path from the root, a binary digit for each fold, the last fold
    first. Folding end over beginning makes that the Gray code, read backwards."""
    gray = place ^ place >> 1
    return sum((gray >> bit & 1) << (bits - 1 - bit) for bit in range(bits))
