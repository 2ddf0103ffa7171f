"""Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022, first version."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from smofi.errors import check_choice
from smofi.method import Method, Placement, Tick, active_rows, in_parallel
from smofi.methods.registry import register

Draw = Callable[[int], np.random.Generator]


@register
def sflv1(period: str = "step") -> Method:
    """A server model per client, averaged after every step, epoch or round (round is exactly FedAvg)."""
    check_choice("period", period, ("step", "epoch", "round"))
    if period == "round":
        return Method(placement=Placement(in_parallel))
    return Method(placement=Placement(every_step if period == "step" else every_epoch, resets=True))


def every_step(steps: Sequence[int], epoch_steps: Sequence[int], draw: Draw) -> Iterator[Tick]:
    """Average over the active clients after every step."""
    for step in range(max(steps)):
        active = active_rows(steps, step)
        yield Tick([(row,) for row in active], average=tuple(active))


def every_epoch(steps: Sequence[int], epoch_steps: Sequence[int], draw: Draw) -> Iterator[Tick]:
    """Wait until all clients finished their epoch, then average over all of them."""
    done = [0] * len(steps)
    everyone = tuple(range(len(steps)))
    while any(count < total for count, total in zip(done, steps, strict=True)):
        epoch = [min(size, total - count) for size, total, count in zip(epoch_steps, steps, done, strict=True)]
        for step in range(max(epoch)):
            last = step == max(epoch) - 1
            yield Tick([(row,) for row in active_rows(epoch, step)], average=everyone if last else ())
        done = [count + more for count, more in zip(done, epoch, strict=True)]
