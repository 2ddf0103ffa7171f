"""FedNAG, Yang et al. 2022."""

from smofi.method import Method
from smofi.methods.registry import register


@register
def fednag(steps: int | None = None) -> Method:
    """Use Nesterov momentum on the clients, average it like the weights, and carry it into the next round.

        m_j = beta m_j + g_j ;  W_j = W_j - eta (g_j + beta m_j)
        W = sum_j p_j W_j ;  m = sum_j p_j m_j      the next round's clients start from both

    Arguments:
        steps   local steps of every client; None: `local_epochs` over the client's own data

    Example:
        >>> method = fednag(steps=5)
        >>> method.carry, method.nesterov, method.steps
        (True, True, 5)

    Reference:
        Yang et al., Federated Learning with Nesterov Accelerated Gradient, IEEE TPDS 2022,
        https://arxiv.org/abs/2009.08716
    """
    # W = sum_j p_j W_j ;  m = sum_j p_j m_j ;  the next round's clients start from both
    return Method(carry=True, nesterov=True, steps=steps)
