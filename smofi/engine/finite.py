"""Whether the numbers of a tensor are finite."""

from __future__ import annotations

import torch
from torch import Tensor


def all_finite(tensor: Tensor) -> bool:
    """Whether no number is infinite or NaN.

    A sum that any such number is part of is not finite either, so that one cheap pass mostly tells; a sum of finite
    numbers may overflow, and then each number is looked at, which takes about thirty times as long.

    >>> all_finite(torch.tensor([1.0, torch.inf, -torch.inf])), all_finite(torch.tensor([3e38, 3e38]))
    (False, True)
    """
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def within(tensor: Tensor, largest: float) -> bool:
    """Whether no number is larger in absolute value, or NaN: in one pass.

    >>> within(torch.tensor([1.0, -3.0]), 3), within(torch.tensor([1.0, -3.0]), 2), within(torch.tensor([torch.nan]), 2)
    (True, False, False)
    """
    if not tensor.numel():
        return True
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        tensor = tensor.permute(0, 2, 3, 1)  # as it lies in memory: otherwise it would be copied
    low, high = tensor.aminmax()
    return bool(low >= -largest) and bool(high <= largest)


def finite_or_kept(new: Tensor, old: Tensor) -> bool:
    """Whether every number is finite or what it was: a constant among the statistics may be infinite.

    >>> mask = torch.tensor([0.0, -torch.inf])
    >>> finite_or_kept(torch.tensor([1.0, -torch.inf]), mask), finite_or_kept(torch.tensor([torch.inf, 1.0]), mask)
    (True, False)
    """
    return bool(torch.isfinite(new.sum())) or bool((torch.isfinite(new) | (new == old)).all())
