"""Pascanu et al., On the Difficulty of Training Recurrent Neural Networks, ICML 2013."""

from smofi.errors import check_choice, check_number
from smofi.method import Limit, Method
from smofi.methods.registry import register


@register
def clip(max_norm: float, scope: str = "model") -> Method:
    """Clip every gradient to a norm, the last thing before the optimizer."""
    check_number("max_norm", max_norm, above=0)
    check_choice("scope", scope, ("model", "part"))
    # g *= min(1, A / |g|)
    return Method(limit=Limit(max_norm, scope))
