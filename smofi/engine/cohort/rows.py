"""The cohort's rows: `[J, P]`; where the server keeps a single model, `[J, c]` beside `[1, P - c]`."""

from __future__ import annotations

import torch
from torch import Tensor

from smofi.engine.processes.tree import NOTHING
from smofi.flat import Columns

ALIGNMENT = 128
"""Bytes. Kernels may add in another order where a row begins elsewhere, or where they take several rows for one: so all
rows begin alike, and a row that vector instructions do not fill up does not touch the next."""


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

    def weighted(self, row: int, share: float, out: Tensor) -> None:
        """out = p_j row_j, `[P]`; nothing in columns that exist only once."""
        for run, piece in self.pieces:
            if run == self.shared:
                out[run].fill_(NOTHING)
            else:
                torch.mul(piece[row], share, out=out[run])

    def weighted_change(self, row: int, share: float, origin: Tensor, out: Tensor) -> None:
        """out = p_j (row_j - origin), `[P]`; exactly zero in columns that the row did not change."""
        for run, piece in self.pieces:
            if run == self.shared:
                out[run].fill_(NOTHING)
            else:
                torch.mul(change_from(origin[run], piece[row]), share, out=out[run])

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


def aligned_rows(count: int, size: int, like: Tensor) -> Tensor:
    """Zeros `[count, size]`, all rows equally aligned.

    >>> aligned_rows(2, 3, torch.zeros(1)).stride()
    (32, 1)
    """
    width = ALIGNMENT // like.element_size()
    return like.new_zeros(count, -(-size // width) * width)[:, :size]
