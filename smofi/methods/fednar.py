"""FedNAR, Li et al. 2023."""

from smofi.errors import check_choice, check_number
from smofi.method import Decay, Limit, Method
from smofi.methods.registry import register


@register
def fednar(decay: float | None = None, max_norm: float = 10, scope: str = "model") -> Method:
    """Clip the gradient and the weight decay together, in place of the optimizer's weight decay.

        u = g + lambda W_j ;  g = u min(1, A / |u|)

    Arguments:
        decay      lambda, the weight decay; None: the optimizer's `weight_decay`
        max_norm   A, the largest norm that the sum keeps; inf: no clipping
        scope      "model": the norm of a client's whole model; "part": of each side of the cut alone

    Example:
        >>> fednar(decay=0.01).decay
        Decay(rate=0.01, limit=Limit(max_norm=10, scope='model'))

    Reference:
        Li et al., FedNAR: Federated Optimization with Normalized Annealing Regularization, NeurIPS 2023,
        https://arxiv.org/abs/2310.03163
    """
    if decay is not None:
        check_number("decay", decay, low=0)
    check_number("max_norm", max_norm, above=0, infinite=True)
    check_choice("scope", scope, ("model", "part"))
    # u = g + lambda w ;  u *= min(1, A / |u|)
    return Method(decay=Decay(decay, Limit(max_norm, scope)))
