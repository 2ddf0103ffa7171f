"""Yang et al., Federated Learning with Nesterov Accelerated Gradient, IEEE TPDS 2022."""

from smofi.method import Method
from smofi.methods.registry import register


@register
def fednag(steps: int | None = None) -> Method:
    """Local Nesterov momentum, averaged like the weights and carried into the next round."""
    # W = sum_j p_j W_j ;  m = sum_j p_j m_j ;  the next round's clients start from both
    return Method(carry=True, nesterov=True, steps=steps)
