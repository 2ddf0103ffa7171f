"""SplitFed's second version, Thapa et al. 2022."""

from collections.abc import Iterator

from smofi.errors import check_choice
from smofi.method import Draw, Method, Placement, Tick, Turnout, active_rows
from smofi.methods.registry import register


@register
def sflv2(turns: str = "client") -> Method:
    """Keep one server model that sees the clients one after the other, in a random order.

        for each client j, in an order drawn for every round:       all its steps, then the next client's
            W[server] = W[server] - eta m,  m = beta m + g_j

    Arguments:
        turns   "client": a client takes all its steps before the next begins; "step": every client in turn takes one
                step, in an order drawn for every step

    Example:
        >>> import numpy as np
        >>> turnout = Turnout(steps=[2, 2], epoch_steps=[2, 2])
        >>> [tick.groups for tick in sflv2().placement.schedule(turnout, np.random.default_rng)]
        [[(0,)], [(0,)], [(1,)], [(1,)]]

    Reference:
        Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022,
        https://arxiv.org/abs/2004.12088
    """
    check_choice("turns", turns, ("client", "step"))
    if turns == "client":
        return Method(placement=Placement(by_client, waits="client", one_server=True))
    return Method(placement=Placement(by_step, waits="step", one_server=True))


def by_step(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """Every step, the active clients one after the other in an order drawn anew, without those that have left."""
    for step, active in enumerate(turnout.each_step()):
        order = draw(step).permutation(active_rows(turnout.intended, step))
        yield Tick([(int(row),) for row in order if row in active])


def by_client(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """A client runs all its steps before the next one begins."""
    for row in draw(0).permutation(len(turnout.steps)):
        for _ in range(turnout.steps[row]):
            yield Tick([(int(row),)])
