"""Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022, second version."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from smofi.errors import check_choice
from smofi.method import Method, Placement, Tick, active_rows
from smofi.methods.registry import register

Draw = Callable[[int], np.random.Generator]


@register
def sflv2(turns: str = "step") -> Method:
    """One server model that visits the clients in a random order, at every step or client after client."""
    check_choice("turns", turns, ("step", "client"))
    return Method(placement=Placement(by_step if turns == "step" else by_client, one_server=True))


def by_step(steps: Sequence[int], epoch_steps: Sequence[int], draw: Draw) -> Iterator[Tick]:
    """Every step, the active clients one after the other in an order drawn anew."""
    for step in range(max(steps)):
        order = draw(step).permutation(active_rows(steps, step))
        yield Tick([(int(row),) for row in order])


def by_client(steps: Sequence[int], epoch_steps: Sequence[int], draw: Draw) -> Iterator[Tick]:
    """A client runs all its steps before the next one begins."""
    for row in draw(0).permutation(len(steps)):
        for _ in range(steps[row]):
            yield Tick([(int(row),)])
