"""FedProx, Li et al. 2020."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.errors import check_number
from smofi.method import Method
from smofi.methods.registry import register

if TYPE_CHECKING:
    from torch import Tensor


@register
def fedprox(mu: float) -> Method:
    """Pull every client towards the global weights that the round started from.

        g_j = g_j + mu (W_j - W)                    the gradient of the proximal term mu/2 |W_j - W|^2

    Arguments:
        mu   the strength of the pull; 0 is FedAvg

    Example:
        >>> import torch
        >>> gradient, weights, start = torch.zeros(2), torch.tensor([3.0, 1.0]), torch.ones(2)
        >>> fedprox(mu=0.5).pull(gradient, weights, start)
        >>> gradient.tolist()
        [1.0, 0.0]

    Reference:
        Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, https://arxiv.org/abs/1812.06127
    """
    check_number("mu", mu, low=0)

    def pull(gradient: Tensor, weights: Tensor, start: Tensor) -> None:
        # g += mu (w - w_start)
        gradient.add_(weights - start, alpha=mu)

    return Method(pull=pull)
