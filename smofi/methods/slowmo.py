"""Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow Momentum, ICLR 2020."""

from torch import Tensor

from smofi.errors import check_number
from smofi.method import Method, Outer
from smofi.methods.registry import register


@register
def slowmo(lr: float, momentum: float, steps: int | None = None) -> Method:
    """Slow momentum in units of the local learning rate; steps fixes the same number of local steps for all."""
    check_number("lr", lr, above=0)
    check_number("momentum", momentum, low=0, below=1)

    def update(weights: Tensor, average: Tensor, memory: Tensor, local_lr: float) -> None:
        # u = beta u + (W - W̄) / eta
        u = memory[0].mul_(momentum).add_(weights - average, alpha=1 / local_lr)
        # W -= a eta u
        weights.sub_(u, alpha=lr * local_lr)

    return Method(outer=Outer(update, vectors=1), steps=steps)
