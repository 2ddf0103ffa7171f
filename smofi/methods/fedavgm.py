"""FedAvgM, Hsu et al. 2019."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.errors import check_number
from smofi.method import Method, Outer
from smofi.methods.registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register
def fedavgm(momentum: float) -> Method:
    """Add momentum to the global update after each round.

        m = beta m + (W - W̄) ;  W = W - m           W̄: the clients' average, m: zero before the first round

    Arguments:
        momentum   beta, at least 0 and below 1; 0 is FedAvg

    Example:
        >>> import torch
        >>> weights, average, memory = torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([[4.0]])
        >>> fedavgm(momentum=0.5).outer.update(weights, average, memory, lr=0.1)
        >>> weights.item(), memory.item()           # m = 0.5 x 4 + (3 - 1)
        (-1.0, 4.0)

    Reference:
        Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification,
        2019, https://arxiv.org/abs/1909.06335
    """
    check_number("momentum", momentum, low=0, below=1)
    return Method(outer=global_momentum(momentum))


def global_momentum(beta: float) -> Outer:
    """The global update of FedAvgM, and of SMoFi."""

    def update(weights: Tensor, average: Tensor, memory: Tensor, lr: float) -> None:
        # m = beta m + (W - W̄)
        m = memory[0].mul_(beta).add_(weights - average)
        # W -= m
        weights.sub_(m)

    return Outer(update, vectors=1)
