"""Li et al., FedNAR: Federated Optimization with Normalized Annealing Regularization, NeurIPS 2023."""

from smofi.errors import check_choice, check_number
from smofi.method import Decay, Limit, Method
from smofi.methods.registry import register


@register
def fednar(decay: float | None = None, max_norm: float = 10, scope: str = "model") -> Method:
    """Clip gradient and weight decay together; decay=None takes over the optimizer's weight decay."""
    if decay is not None:
        check_number("decay", decay, low=0)
    check_number("max_norm", max_norm, above=0, infinite=True)
    check_choice("scope", scope, ("model", "part"))
    # u = g + lambda w ;  u *= min(1, A / |u|)
    return Method(decay=Decay(decay, Limit(max_norm, scope)))
