"""How much memory the widest operation of a pass takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smofi.engine.cpu.private import observing


def widest_of_batch(model: nn.Module, two: Tensor, samples: int) -> int:
    """The bytes that the widest operation of a forward pass without gradients takes and gives, of a batch of this many
    samples, worked out from a batch of two: weights are taken once.

    >>> widest_of_batch(nn.Linear(10, 1, bias=False), torch.zeros(2, 10), samples=100)  # (10 + 100 (10 + 1)) x 4
    4440
    """
    one, both = _operations(model, two[:1]), _operations(model, two)
    if len(one) != len(both):  # another way to compute it
        return max(both, default=0) * -(-samples // 2)
    return max((first + (second - first) * (samples - 1) for first, second in zip(one, both, strict=True)), default=0)


def _operations(model: nn.Module, inputs: Tensor) -> list[int]:
    """The bytes of every operation."""
    found: list[int] = []

    def observe(tensors: list[Tensor]) -> None:
        found.append(sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    with torch.no_grad(), observing(observe):
        model(inputs)
    return found
