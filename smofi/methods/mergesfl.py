"""Liao et al., MergeSFL: Split Federated Learning with Feature Merging and Batch Size Regulation, ICDE 2024."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from smofi.method import Method, Placement, Tick, active_rows
from smofi.methods.registry import register


@register
def mergesfl(steps: int | None = None) -> Method:
    """One server model, trained on the merged batch of all clients; batch sizes follow the clients' speeds."""
    placement = Placement(merged, one_server=True, merges=True)
    return Method(placement=placement, batch_sizes=by_speed, steps=steps)


def merged(
    steps: Sequence[int], epoch_steps: Sequence[int], draw: Callable[[int], np.random.Generator]
) -> Iterator[Tick]:
    """Every step, all active clients as one group."""
    for step in range(max(steps)):
        yield Tick([tuple(active_rows(steps, step))])


def by_speed(batch_size: int, speeds: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """The fastest client gets the whole batch size, the others a share of it.

    >>> by_speed(32, speeds=[1.0, 0.5], sizes=[100, 100])
    [32, 16]
    """
    # B_i = clamp(round(B s_i / s_max), 1, |D_i|)
    return [
        max(1, min(round(batch_size * speed / max(speeds)), size)) for speed, size in zip(speeds, sizes, strict=True)
    ]
