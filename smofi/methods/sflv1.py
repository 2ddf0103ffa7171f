"""Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022, first version."""

from collections.abc import Iterator

from smofi.errors import check_choice
from smofi.method import Draw, Method, Placement, Tick, Turnout, active_rows, in_parallel
from smofi.methods.registry import register


@register
def sflv1(period: str = "step") -> Method:
    """A server model per client, averaged after every step, epoch or round (round is exactly FedAvg)."""
    check_choice("period", period, ("step", "epoch", "round"))
    if period == "round":
        return Method(placement=Placement(in_parallel))
    if period == "epoch":
        return Method(placement=Placement(every_epoch, waits="epoch", resets=True))
    return Method(placement=Placement(every_step, waits="step", resets=True))


def every_step(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """Average over the active clients after every step."""
    for active in turnout.each_step():
        yield Tick([(row,) for row in active], average=tuple(active))


def every_epoch(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """Wait until all clients finished their epoch, then average over all of them that did."""
    steps, sizes = turnout.steps, turnout.epoch_steps
    done, due = [0] * len(steps), [0] * len(steps)
    while any(count < total for count, total in zip(done, steps, strict=True)):
        epoch = [min(size, total - count) for size, total, count in zip(sizes, steps, done, strict=True)]
        done = [count + more for count, more in zip(done, epoch, strict=True)]
        due = [min(size + count, total) for size, count, total in zip(sizes, due, turnout.intended, strict=True)]
        there = tuple(row for row, count in enumerate(done) if count == due[row])
        for step in range(max(epoch)):
            last = step == max(epoch) - 1
            yield Tick([(row,) for row in active_rows(epoch, step)], average=there if last else ())
