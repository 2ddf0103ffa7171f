"""McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017."""

from smofi.method import Method
from smofi.methods.registry import register


@register
def fedavg() -> Method:
    """Average the clients' weights after each round: W = sum_j p_j W_j."""
    return Method()
