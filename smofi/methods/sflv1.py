"""SplitFed's first version, Thapa et al. 2022."""

from collections.abc import Iterator

from smofi.errors import check_choice
from smofi.method import Draw, Method, Placement, Tick, Turnout, active_rows, in_parallel
from smofi.methods.registry import register


@register
def sflv1(period: str = "step") -> Method:
    """Keep a server model per client, and average them after every step, epoch or round.

        W_j[server] = sum_i p_i W_i[server] / sum_i p_i        i: the active clients

    After "step" or "epoch", the server models go on from the average with fresh optimizers; "round" is exactly FedAvg.

    Arguments:
        period   "step", "epoch" or "round": when the server models are averaged

    Example:
        >>> ticks = sflv1().placement.schedule(Turnout(steps=[2, 1], epoch_steps=[2, 1]), draw=None)
        >>> [(tick.groups, tick.average) for tick in ticks]
        [([(0,), (1,)], (0, 1)), ([(0,)], (0,))]

    Reference:
        Thapa et al., SplitFed: When Federated Learning Meets Split Learning, AAAI 2022,
        https://arxiv.org/abs/2004.12088
    """
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
        finished = tuple(row for row, count in enumerate(done) if count == due[row])
        for step in range(max(epoch)):
            last = step == max(epoch) - 1
            yield Tick([(row,) for row in active_rows(epoch, step)], average=finished if last else ())
