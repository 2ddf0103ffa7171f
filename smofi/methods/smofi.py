"""Yang et al., SMoFi: Step-wise Momentum Fusion for Split Federated Learning on Heterogeneous Data, AAAI 2026."""

from smofi.errors import check_flag, check_number
from smofi.method import Method, Outer
from smofi.methods.fedavgm import global_momentum as momentum_after_round
from smofi.methods.registry import register


@register
def smofi(alpha: float = -0.1, global_momentum: float = 0.3, align: bool = True) -> Method:
    """Fuse the server-side momentum after every step, finished clients weighing less with age (alpha)."""
    check_number("alpha", alpha, high=0)
    check_number("global_momentum", global_momentum, low=0, below=1)
    check_flag("align", align)

    def staleness(age: int) -> float:
        # m̄ = sum_j (age_j + 1)^alpha m_j / |J|
        return float((age + 1) ** alpha)

    # m_g = beta_g m_g + (W - W̄) ;  W -= m_g
    outer: Outer | None = momentum_after_round(global_momentum) if global_momentum else None
    return Method(fuse=staleness if align else None, outer=outer)
