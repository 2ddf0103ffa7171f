"""How much memory the widest operation of a pass takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smofi.engine.cpu.private import observing


def widest_operation(model: nn.Module, inputs: Tensor) -> int:
    """The bytes that the widest operation of a forward pass without gradients takes and gives.

    >>> widest_operation(nn.ReLU(), torch.zeros(10))  # 10 numbers in, 10 numbers out
    80
    """
    widest = 0

    def observe(tensors: list[Tensor]) -> None:
        nonlocal widest
        widest = max(widest, sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    with torch.no_grad(), observing(observe):
        model(inputs)
    return widest
