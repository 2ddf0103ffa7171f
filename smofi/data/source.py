"""What a data set is to the rest of the library: two pairs of tensors and their shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

Pair: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Source:
    """Samples and labels, ready to train on: `train` and `test` are (x, y).

    >>> import torch
    >>> pair = torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
    >>> Source("blank", pair, pair, classes=10, input_shape=(1, 8, 8)).input_shape
    (1, 8, 8)
    """

    name: str
    train: Pair
    test: Pair
    classes: int
    input_shape: tuple[int, ...]
