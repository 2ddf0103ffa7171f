"""Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019."""

from torch import Tensor

from smofi.errors import check_number
from smofi.method import Method, Outer
from smofi.methods.registry import register


@register
def fedavgm(momentum: float) -> Method:
    """Momentum on the global update after each round."""
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
