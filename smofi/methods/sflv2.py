"""Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022, second version."""

from collections.abc import Iterator

from smofi.errors import check_choice
from smofi.method import Draw, Method, Placement, Tick, Turnout, active_rows
from smofi.methods.registry import register


@register
def sflv2(turns: str = "step") -> Method:
    """One server model that visits the clients in a random order, at every step or client after client."""
    check_choice("turns", turns, ("step", "client"))
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
