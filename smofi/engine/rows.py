"""The cohort's rows: `[J, P]`; where the server keeps a single model, `[J, c]` beside `[1, P - c]`."""

from __future__ import annotations

import torch
from torch import Tensor

from smofi.flat import Columns


class Rows:
    """`count` rows of `size` columns, stored as pieces so that the columns in `shared` exist only once."""

    def __init__(self, count: int, size: int, like: Tensor, shared: Columns | None = None) -> None:
        runs = [(slice(0, size), count)]
        if shared is not None:
            runs = [(slice(0, shared.start), count), (shared, 1), (slice(shared.stop, size), count)]
        self.size = size
        self.pieces = [(run, like.new_zeros(rows, run.stop - run.start)) for run, rows in runs]

    def of(self, row: int, columns: Columns) -> Tensor:
        """Some columns of one row, as a view; the columns must not reach from one piece into the next."""
        for run, piece in self.pieces:
            if run.start <= columns.start and columns.stop <= run.stop:
                kept = piece[row if len(piece) > 1 else 0]
                return kept[columns.start - run.start : columns.stop - run.start]
        raise IndexError(f"columns {columns} lie in no single piece of {[run for run, _ in self.pieces]}")

    def fill(self, vector: Tensor) -> None:
        """Every row becomes this vector."""
        for run, piece in self.pieces:
            piece.copy_(vector[run])

    def zero(self) -> None:
        """Every row becomes zero."""
        for _, piece in self.pieces:
            piece.zero_()

    def mean(self, weights: Tensor, origin: Tensor | None = None) -> Tensor:
        """The weighted mean of the rows, `[P]`; taken relative to `origin`, columns that equal it stay exactly so."""
        result = weights.new_empty(self.size)
        for run, piece in self.pieces:
            if len(piece) == 1:
                result[run] = piece[0]
            elif origin is None:
                torch.mv(piece.t(), weights, out=result[run])
            else:
                result[run] = origin[run] + weights @ (piece - origin[run])
        return result
