"""Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020."""

from torch import Tensor

from smofi.errors import check_number
from smofi.method import Method
from smofi.methods.registry import register


@register
def fedprox(mu: float) -> Method:
    """Pull every client back towards the weights the round began with, with strength mu."""
    check_number("mu", mu, low=0)

    def pull(gradient: Tensor, weights: Tensor, start: Tensor) -> None:
        # g += mu (w - w_start)
        gradient.add_(weights - start, alpha=mu)

    return Method(pull=pull)
