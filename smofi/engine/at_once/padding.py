"""Passes of more rows than clients, so that a client's bits do not depend on how many others share its pass.

Kernels are chosen by the shape of the whole pass, and loops end in a tail of single numbers that round differently from
whole vectors of them. Rows that repeat the last client bring a pass to a width that avoids both; their
results are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smofi.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, order=True)
class Padding:
    """A pass has at least `least` rows, and a multiple of `multiple`. The larger of two serves wherever either does.

    >>> [Padding(2, 2).width(clients) for clients in (1, 2, 3, 4, 5)]
    [2, 2, 4, 4, 6]
    """

    least: int = 1
    multiple: int = 1

    def width(self, clients: int) -> int:
        """The number of rows of a pass of this many clients."""
        return max(self.least, -(-clients // self.multiple) * self.multiple)


NONE = Padding()
PADDINGS = (NONE, Padding(2, 1), Padding(2, 2), Padding(4, 4), Padding(8, 8))
"""From the cheapest on."""


def repeat_last(rows: Tensor, width: int) -> Tensor:
    """The same rows, the last of them repeated until there are `width`: no copy if there are enough already.

    Each row lies in memory as it did, since a kernel may be chosen by that, too.

    >>> repeat_last(torch.tensor([[1, 2], [3, 4]]), 4).tolist()
    [[1, 2], [3, 4], [3, 4], [3, 4]]
    """
    count = len(rows)
    if count == width:
        return rows
    row = torch.empty_like(rows[0])
    padded = rows.new_empty_strided((width, *row.shape), (max(rows.stride(0), row.numel()), *row.stride()))
    padded[:count] = rows
    padded[count:] = rows[-1]
    return padded
