"""Who holds which samples: every sample goes to exactly one client, and no client is left with less than it needs."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from smofi.data.kinds import Indices, Kind, parse
from smofi.errors import InputError, check_count, refuse
from smofi.seeds import generator


def fill(owner: Indices, clients: int, min_size: int, rng: np.random.Generator) -> Indices:
    """Move samples, one at a time from whoever is largest then, until every client holds `min_size`.

    All moves are found at once: the largest clients end at a common level, like water.

    >>> np.bincount(fill(np.array([0, 0, 0, 0, 0, 1, 1, 1]), 3, 2, np.random.default_rng(0))).tolist()
    [3, 3, 2]
    """
    sizes = np.bincount(owner, minlength=clients)
    lacking = np.maximum(min_size - sizes, 0)
    needed = int(lacking.sum())
    if needed == 0:
        return owner

    def above(level: int) -> int:
        return int(np.maximum(sizes - level, 0).sum())

    level = bisect.bisect_left(range(int(sizes.max()) + 1), True, key=lambda level: above(level) <= needed)
    giving = np.maximum(sizes - level, 0)
    # Whole levels rarely add up to exactly what is needed; the rest comes one each from clients at the level.
    giving[np.flatnonzero(sizes >= level)[: needed - above(level)]] += 1

    shuffled = rng.permutation(len(owner))
    by_client = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    moving = rng.permutation(by_client[rank < np.repeat(giving, sizes)])
    filled = owner.copy()
    filled[moving] = np.repeat(np.arange(clients), lacking)
    return filled


def partition(
    labels: Any, clients: int, how: str | Kind = "dirichlet(0.2)", *, min_size: int = 32, seed: int = 0
) -> list[Indices]:
    """The sample indices of each client, ascending. `min_size` is best one batch: with less, a client cannot train.

    >>> [len(indices) for indices in partition([0, 1] * 50, clients=4, how="iid", min_size=10)]
    [25, 25, 25, 25]
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        refuse("labels", f"an array of shape {array.shape}", "one label per sample, shape [samples]")
    check_count("clients", clients)
    check_count("min_size", min_size, low=0)
    check_count("seed", seed, low=0)
    if clients * min_size > len(array):
        raise InputError(
            f"clients={clients} with min_size={min_size} (one batch, as a rule) is not accepted: that takes "
            f"{clients * min_size} samples and there are {len(array)}; use fewer clients or a smaller batch"
        )
    kind = parse(how) if isinstance(how, str) else how
    rng = generator(seed, "partition")
    owner = fill(kind.owners(array, clients, rng), clients, min_size, rng)
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return np.split(np.argsort(owner, kind="stable"), ends[:-1])
