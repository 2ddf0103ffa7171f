"""The cohort's rows: `[J, P]`; where the server keeps a single model, `[J, c]` beside `[1, P - c]`."""

from __future__ import annotations

import torch
from torch import Tensor

from smofi.flat import Columns


class Rows:
    """`count` rows of `size` columns, stored as pieces so that the columns in `shared` exist only once.

    A piece with a single row is shared by all rows: any row of it is that one.
    """

    def __init__(self, count: int, size: int, like: Tensor, shared: Columns | None = None) -> None:
        runs = [(slice(0, size), count)]
        if shared is not None:
            runs = [(slice(0, shared.start), count), (shared, 1), (slice(shared.stop, size), count)]
        self.size, self.shared = size, shared
        self.pieces = [(run, like.new_zeros(rows, run.stop - run.start)) for run, rows in runs]

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

    def weighted_sum(self, shares: Tensor, once: float = 1.0) -> Tensor:
        """sum_j p_j row_j, `[P]`; columns that exist only once are multiplied by `once`: 0 leaves them out."""
        return torch.cat([once * piece[0] if run == self.shared else shares @ piece for run, piece in self.pieces])

    def weighted_change(self, shares: Tensor, origin: Tensor, once: float = 1.0) -> Tensor:
        """sum_j p_j (row_j - origin), `[P]`; exactly zero in columns that no row changed."""
        changes = [(run, change_from(origin[run], piece)) for run, piece in self.pieces]
        return torch.cat([once * change[0] if run == self.shared else shares @ change for run, change in changes])

    def finite(self) -> list[Tensor]:
        """Whether all of a row is finite, for each row."""
        pieces = [[row.isfinite().all() for row in piece] for _, piece in self.pieces]
        count = max(map(len, pieces))
        return [torch.stack([piece[row if len(piece) > 1 else 0] for piece in pieces]).all() for row in range(count)]


def change_from(origin: Tensor, rows: Tensor) -> Tensor:
    """How far each row is from where it came from; exactly zero where it is the same.

    Statistics are averaged by their changes, since what looks like one may be a constant, infinite even, such as an
    attention mask.

    >>> change_from(torch.tensor([0.0, -torch.inf]), torch.tensor([[1.0, -torch.inf], [3.0, -torch.inf]])).tolist()
    [[1.0, 0.0], [3.0, 0.0]]
    """
    return torch.where(rows == origin, torch.zeros_like(rows), rows - origin)
