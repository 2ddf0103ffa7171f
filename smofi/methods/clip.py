"""Gradient clipping, Pascanu et al. 2013."""

from smofi.errors import check_choice, check_number
from smofi.method import Limit, Method
from smofi.methods.registry import register


@register
def clip(max_norm: float, scope: str = "model") -> Method:
    """Clip every gradient to a largest norm, as the last step before the optimizer.

        g = g min(1, A / |g|)

    Arguments:
        max_norm   A, the largest norm that a gradient keeps
        scope      "model": the norm of a client's whole model; "part": of each side of the cut alone

    Example:
        >>> clip(max_norm=10).limit
        Limit(max_norm=10, scope='model')

    Reference:
        Pascanu et al., On the Difficulty of Training Recurrent Neural Networks, ICML 2013,
        https://arxiv.org/abs/1211.5063
    """
    check_number("max_norm", max_norm, above=0)
    check_choice("scope", scope, ("model", "part"))
    # g *= min(1, A / |g|)
    return Method(limit=Limit(max_norm, scope))
