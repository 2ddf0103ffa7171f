"""SlowMo, Wang et al. 2020."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.errors import check_number
from smofi.method import Method, Outer
from smofi.methods.registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register
def slowmo(lr: float, momentum: float, steps: int | None = None) -> Method:
    """Add slow momentum to the global update after each round, in units of the local learning rate.

        u = beta u + (W - W̄) / eta ;  W = W - a eta u      eta: the local learning rate, u: zero before the first round

    Arguments:
        lr         a, the slow learning rate; with lr=1 and momentum=0 this is FedAvg
        momentum   beta, at least 0 and below 1
        steps      local steps of every client; None: `local_epochs` over the client's own data

    Example:
        >>> import torch
        >>> weights, average, memory = torch.tensor([3.0]), torch.tensor([1.0]), torch.zeros(1, 1)
        >>> slowmo(lr=0.5, momentum=0.9).outer.update(weights, average, memory, 0.25)
        >>> weights.item(), memory.item()                  # u = (3 - 1) / 0.25
        (2.0, 8.0)

    Reference:
        Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow Momentum, ICLR 2020,
        https://arxiv.org/abs/1910.00643
    """
    check_number("lr", lr, above=0)
    check_number("momentum", momentum, low=0, below=1)

    def update(weights: Tensor, average: Tensor, memory: Tensor, local_lr: float) -> None:
        # u = beta u + (W - W̄) / eta
        u = memory[0].mul_(momentum).add_(weights - average, alpha=1 / local_lr)
        # W -= a eta u
        weights.sub_(u, alpha=lr * local_lr)

    return Method(outer=Outer(update, vectors=1), steps=steps)
