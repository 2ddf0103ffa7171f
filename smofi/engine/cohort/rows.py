"""The cohort's rows: `[J, P]`; where the server keeps a single model, `[J, c]` beside `[1, P - c]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smofi.engine.processes.tree import NOTHING
from smofi.flat import Columns

ALIGNMENT = 128
"""Bytes. Kernels may add in another order where a row begins elsewhere, or where they take several rows for one: so all
rows begin alike, and a row that vector instructions do not fill up does not touch the next."""


@dataclass(frozen=True)
class Terms:
    """Which rows to add, in the order of the tree: their places, their shares, and `Branch.joins`."""

    places: Sequence[int]
    shares: Sequence[float]
    joins: Sequence[int]


class Rows:
    """`count` rows of `size` columns, stored as pieces so that the columns in `shared` exist only once.

    A piece with a single row is shared by all rows: any row of it is that one.
    """

    def __init__(self, count: int, size: int, like: Tensor, shared: Columns | None = None) -> None:
        runs = [(slice(0, size), count)]
        if shared is not None:
            runs = [(slice(0, shared.start), count), (shared, 1), (slice(shared.stop, size), count)]
        self.size, self.shared = size, shared
        self.pieces = [(run, aligned_rows(rows, run.stop - run.start, like)) for run, rows in runs]

    def matrix(self, columns: Columns) -> Tensor:
        """Some columns of all rows, as a view; the columns must not reach from one piece into the next."""
        for run, piece in self.pieces:
            if run.start <= columns.start and columns.stop <= run.stop:
                return piece[:, columns.start - run.start : columns.stop - run.start]
        raise IndexError(f"columns {columns} lie in no single piece of {[run for run, _ in self.pieces]}")

    def of(self, row: int, columns: Columns) -> Tensor:
        """Some columns of one row, as a view."""
        matrix = self.matrix(columns)
        return matrix[row if len(matrix) > 1 else 0]

    def fill(self, vector: Tensor) -> None:
        """Every row becomes this vector."""
        for run, piece in self.pieces:
            piece.copy_(vector[run])

    def zero(self) -> None:
        """Every row becomes zero."""
        for _, piece in self.pieces:
            piece.zero_()

    def weighted_sum(self, terms: Terms, out: Tensor, origin: Tensor | None = None) -> None:
        """out = sum_j p_j row_j, or sum_j p_j (row_j - origin), `[P]`; nothing in columns that exist only once. Changes
        the rows."""
        for run, piece in self.pieces:
            if run == self.shared:
                out[run].fill_(NOTHING)
            else:
                weighted_sum(piece, terms, out[run], None if origin is None else origin[run])

    def finite(self, row: int) -> Tensor:
        """Whether all of a row is finite."""
        return torch.stack([piece[row if len(piece) > 1 else 0].isfinite().all() for _, piece in self.pieces]).all()

    def distance(self, row: int, vector: Tensor) -> float:
        """How far a row is from a vector, but for the columns that exist only once."""
        own = [(run, piece[row]) for run, piece in self.pieces if run != self.shared]
        return math.hypot(*(float(change_from(vector[run], piece).norm()) for run, piece in own))

    def size_where_changed(self, row: int, vector: Tensor) -> float:
        """The norm of a vector in those columns where a row is another, but for the columns that exist only once."""
        own = [(vector[run], piece[row]) for run, piece in self.pieces if run != self.shared]
        return math.hypot(*(float(old[old != new].norm()) for old, new in own))

    def once(self) -> tuple[Columns, Tensor]:
        """The columns that exist only once, and what is in them."""
        assert self.shared is not None
        return self.shared, self.of(0, self.shared)


def change_from(origin: Tensor, rows: Tensor) -> Tensor:
    """How far each row is from where it came from; exactly zero where it is the same.

    Statistics are averaged by their changes, since what looks like one may be a constant, infinite even, such as an
    attention mask.

    >>> change_from(torch.tensor([0.0, -torch.inf]), torch.tensor([[1.0, -torch.inf], [3.0, -torch.inf]])).tolist()
    [[1.0, 0.0], [3.0, 0.0]]
    """
    return torch.where(rows == origin, torch.zeros_like(rows), rows - origin)


def weighted_sum(matrix: Tensor, terms: Terms, out: Tensor, origin: Tensor | None = None) -> None:
    """out = sum_j p_j row_j in the order of the tree, or sum_j p_j (row_j - origin). Changes the rows.

    >>> rows, out = torch.tensor([[1.0], [10.0], [100.0]]), torch.empty(1)
    >>> weighted_sum(rows, Terms(places=[0, 2], shares=[2.0, 3.0], joins=[0, 1]), out)
    >>> out
    tensor([302.])
    """
    stack: list[Tensor] = []
    for place, share, joins in zip(terms.places, terms.shares, terms.joins, strict=True):
        row = matrix[place]
        # p_j W_j is rounded before it is added, for the other term may be in another process
        stack.append(torch.mul(row if origin is None else change_from(origin, row), share, out=row))
        for _ in range(joins):
            top = stack.pop()
            stack[-1].add_(top)
    if stack:
        out.copy_(stack[0])
    else:
        out.fill_(NOTHING)


def aligned_rows(count: int, size: int, like: Tensor) -> Tensor:
    """Zeros `[count, size]`, all rows equally aligned.

    >>> aligned_rows(2, 3, torch.zeros(1)).stride()
    (32, 1)
    """
    width = ALIGNMENT // like.element_size()
    return like.new_zeros(count, -(-size // width) * width)[:, :size]
