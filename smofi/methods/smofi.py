"""SMoFi, Yang et al. 2026."""

from smofi.errors import check_flag, check_number
from smofi.method import Method, Outer
from smofi.methods.fedavgm import global_momentum as momentum_after_round
from smofi.methods.registry import register


@register
def smofi(alpha: float = -0.1, global_momentum: float = 0.3, align: bool = True) -> Method:
    """Fuse the momentum of all server models after every step, so that clients with different data pull in one
    direction. Once a client has finished its steps, it counts less with every further step of the others.

        m_j = beta m̄ + g_j                            server columns; the client columns keep their own momentum
        m̄ = sum_j (age_j + 1)^alpha m_j / |J|         after every step; age_j: steps since j last contributed
        m_g = beta_g m_g + (W - W̄) ;  W = W - m_g     after every round

    Arguments:
        alpha             how fast a finished client's momentum fades, at most 0; 0: never. At the first step that it
                          misses it weighs 2^alpha; in another reading of the paper 1, and 2^alpha at the second
        global_momentum   beta_g, at least 0 and below 1; 0: W = W̄, as in FedAvg
        align             False turns the fusion off, for comparison

    Example:
        >>> fuse = smofi(alpha=-1).fuse
        >>> [fuse(age) for age in (0, 1, 3)]          # weights of clients that last contributed 0, 1, 3 steps ago
        [1.0, 0.5, 0.25]

    Reference:
        Yang et al., SMoFi: Step-wise Momentum Fusion for Split Federated Learning on Heterogeneous Data, AAAI 2026,
        https://arxiv.org/abs/2511.09828
    """
    check_number("alpha", alpha, high=0)
    check_number("global_momentum", global_momentum, low=0, below=1)
    check_flag("align", align)

    def staleness(age: int) -> float:
        # m̄ = sum_j (age_j + 1)^alpha m_j / |J|
        return float((age + 1) ** alpha)

    # m_g = beta_g m_g + (W - W̄) ;  W -= m_g
    outer: Outer | None = momentum_after_round(global_momentum) if global_momentum else None
    return Method(fuse=staleness if align else None, outer=outer)
