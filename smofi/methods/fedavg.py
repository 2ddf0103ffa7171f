"""FedAvg, McMahan et al. 2017."""

from smofi.method import Method
from smofi.methods.registry import register


@register
def fedavg() -> Method:
    """Average the clients' weights after each round. Every other method is a change to this one.

        W = sum_j p_j W_j                           p_j: client j's share of the round's samples

    Arguments:
        none

    Example:
        >>> fedavg() == Method(name="fedavg")
        True

    Reference:
        McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
        https://arxiv.org/abs/1602.05629
    """
    return Method()
