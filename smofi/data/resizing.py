"""Images brought to squares of another size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

Images: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = npt.NDArray[np.int64]

AT_ONCE, NUMBERS_AT_ONCE = 1000, 2**25
"""Images that are resized at once, and the numbers that they may have together, before or after."""


class Keep(Protocol):
    """Keeps images that have been resized."""

    def __call__(self, side: int, rows: Rows, resize: Callable[[], Images], some: Rows | None = None) -> Images:
        """What was kept of these rows, or what `resize` gives, kept. `some` asks for these of the rows alone, which are
        then all that `resize` gives."""


def resize_now(side: int, rows: Rows, resize: Callable[[], Images], some: Rows | None = None) -> Images:
    """Keeps nothing."""
    return resize()


def resize(stored: Tensor, rows: Tensor, side: int) -> Tensor:
    """The images in these rows as squares `[samples, side, side, channels]`; shrinking averages what falls together.

    >>> resize(torch.arange(4.0).reshape(1, 2, 2, 1), torch.tensor([0]), 1).flatten().tolist()
    [1.5]
    """
    small = torch.empty((len(rows), side, side, stored.shape[3]), dtype=stored.dtype, device=stored.device)
    largest = max(small.shape[1:].numel(), stored.shape[1:].numel(), 1)
    step = max(1, min(AT_ONCE, NUMBERS_AT_ONCE // largest))
    for begin in range(0, len(rows), step):
        images = stored[rows[begin : begin + step]].permute(0, 3, 1, 2).to(torch.float32)
        planes = interpolate(images, size=(side, side), mode="area")
        whole = planes.round_() if stored.dtype == torch.uint8 else planes
        small[begin : begin + step] = whole.to(stored.dtype).permute(0, 2, 3, 1)
    return small
