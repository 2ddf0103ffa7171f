"""MergeSFL, Liao et al. 2024."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from smofi.errors import check_choice, check_number
from smofi.later import np
from smofi.method import Candidates, Draw, Method, Placement, Tick, Turnout
from smofi.methods.registry import register

REFERENCES = {"fastest": max, "slowest": min}


@register
def mergesfl(steps: int | None = None, bandwidth: float | None = None, reference: str = "fastest") -> Method:
    """Keep one server model and train it on the merged batch of all clients. Faster clients get larger batches. With a
    bandwidth, clients are selected so that the merged batch has a balanced mix of classes.

        B_i = clamp(round(B s_i / s_ref), 1, |D_i|)        s_i: client i's speed, D_i: its samples
        g = gradient of the merged batch, sum_i B_i samples; client i gets its cut gradient times sum(B) / B_i
        W = sum_i B_i W_i / sum(B)                         the client parts

    Arguments:
        steps       local steps of every client; None: `local_epochs` over the client's own data
        bandwidth   bytes that the server can receive per step; None: clients are selected at random
        reference   "fastest": the fastest client gets B, the others fewer samples; "slowest": the slowest gets B, the
                    others more. Without a clock all are equally fast

    Example:
        >>> ticks = mergesfl().placement.schedule(Turnout(steps=[2, 1], epoch_steps=[2, 1]), np.random.default_rng)
        >>> [tick.groups for tick in ticks]                # both clients as one group, then client 0 alone
        [[(0, 1)], [(0,)]]

    Reference:
        Liao et al., MergeSFL: Split Federated Learning with Feature Merging and Batch Size Regulation, ICDE 2024,
        https://arxiv.org/abs/2311.13348
    """
    placement = Placement(merged, waits="step", one_server=True, merges=True)
    select = partial(balanced, check_number("bandwidth", bandwidth, above=0)) if bandwidth is not None else None
    check_choice("reference", reference, REFERENCES)
    batch_sizes = partial(by_speed, reference=reference)
    return Method(placement=placement, batch_sizes=batch_sizes, select=select, steps=steps)


def merged(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """Every step, all active clients as one group."""
    for active in turnout.each_step():
        yield Tick([tuple(active)])


def by_speed(batch_size: int, speeds: Sequence[float], sizes: Sequence[int], reference: str = "fastest") -> list[int]:
    """The fastest client, or the slowest, gets the batch size, the others as many samples as they take in that time.

    >>> by_speed(32, speeds=[1.0, 0.5], sizes=[100, 50]), by_speed(32, [1.0, 0.5], [100, 50], reference="slowest")
    ([32, 16], [64, 32])
    """
    of_reference = REFERENCES[reference](speeds)
    # B_i = clamp(round(B s_i / s_ref), 1, |D_i|)
    return [
        max(1, min(round(batch_size * speed / of_reference), size)) for speed, size in zip(speeds, sizes, strict=True)
    ]


def balanced(bandwidth: float, candidates: Candidates, most: int) -> list[int]:
    """The first of the candidates, then greedily the one that brings the merged mix of classes closest to uniform, the
    first of equals, as long as its batch fits into the server's bandwidth.

    >>> counts = [np.array([4, 0]), np.array([4, 0]), np.array([0, 4])]
    >>> balanced(200, Candidates([7, 8, 9], [4, 4, 4], counts, [25, 25, 25]), most=3)
    [0, 2]
    """
    sizes, counts = np.array(candidates.batch_sizes), np.stack(candidates.class_counts)
    # the mix of a merged batch: sum_i B_i q_i / sum_i B_i, q_i the client's own mix
    weighted = sizes[:, None] * counts / counts.sum(1, keepdims=True)
    needs = sizes * np.array(candidates.sample_bytes)
    chosen: list[int] = []
    merged, free, left = np.zeros(weighted.shape[1]), bandwidth, np.ones(len(weighted), dtype=bool)
    while len(chosen) < most and (fitting := np.flatnonzero(left & (needs <= free))).size:
        # rounded, so that equals are equal
        best = int(fitting[divergence(merged + weighted[fitting]).round(12).argmin()] if chosen else fitting[0])
        chosen.append(best)
        merged, free, left[best] = merged + weighted[best], free - needs[best], False
    return chosen


def divergence(mixes: np.ndarray) -> np.ndarray:
    """KL(q || uniform) of mixes `[..., classes]` that are not yet divided by their sums.

    >>> divergence(np.array([[2.0, 2.0], [2.0, 0.0]])).round(4).tolist()
    [0.0, 0.6931]
    """
    shares = mixes / mixes.sum(-1, keepdims=True)
    # KL(q || u) = sum_c q_c log(q_c C), where 0 log 0 = 0
    logarithms = np.log(shares * shares.shape[-1], where=shares > 0, out=np.zeros_like(shares))
    found: np.ndarray = (shares * logarithms).sum(-1)
    return found
