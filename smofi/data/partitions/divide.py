"""Which client has which samples: no sample goes to two clients, and no client is left with less than it needs."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import numpy.typing as npt

from smofi.data.partitions.kinds import Kind, Spread, parse
from smofi.data.partitions.natural import Indices, Natural
from smofi.data.partitions.saved import Saved
from smofi.errors import InputError, check_count, check_seed, refuse
from smofi.seeds import generator


def fill(owner: Indices, clients: int, min_size: int, rng: np.random.Generator) -> Indices:
    """Move samples, one at a time from the client that is then the largest, until every client has `min_size`.

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
    labels: Any,
    clients: int | None,
    how: str | Kind = "dirichlet(0.2)",
    *,
    min_size: int = 32,
    seed: int = 0,
    owners: Any = None,
) -> list[Indices]:
    """The sample indices of each client, ascending. `min_size` is best one batch: with less, a client cannot train.
    `clients=None` makes a client of every owner with that many samples ("natural"), or of every one in the file.

    Every sample is used, except by "natural", for which `owners` gives the owner of each sample, and by "file:PATH",
    which is taken as it is. The owner that a natural client stands for is `owners[samples[0]]`.

    >>> [len(indices) for indices in partition([0, 1] * 50, clients=4, how="iid", min_size=10)]
    [25, 25, 25, 25]
    """
    return samples_by_client(
        clients_of(as_labels(labels), clients, how, min_size=min_size, seed=seed, owners=owners), clients
    )


def clients_of(
    labels: Indices, clients: int | None, how: str | Kind, *, min_size: int, seed: int, owners: Any = None
) -> npt.NDArray[Any]:
    """The same as the client of each sample; negative where a sample has none.

    >>> clients_of(np.array([0, 1, 0, 1]), 2, "iid", min_size=1, seed=0).tolist()
    [0, 1, 0, 1]
    """
    kind = parse(how) if isinstance(how, str) else how
    if not isinstance(kind, Saved | Natural) and not callable(getattr(kind, "owners", None)):
        refuse("how", how, 'a string such as "dirichlet(0.2)" or a value such as data.dirichlet(0.2)')
    if clients is not None or not isinstance(kind, (Natural, Saved)):
        check_count("clients", clients)
    check_count("min_size", min_size, low=0)
    check_seed("seed", seed)
    if isinstance(kind, Saved):
        return kind.clients_of(labels, clients)
    rng = generator(seed, "partition")
    if isinstance(kind, Natural):
        return kind.clients_of(as_owners(owners, len(labels)), clients, min_size, rng)
    assert clients is not None
    return _spread(kind, labels, clients, min_size, rng, owned=owners is not None)


def samples_by_client(owner: npt.NDArray[Any], clients: int | None = None) -> list[Indices]:
    """The samples of each client, ascending, from the client of each sample; negative numbers are no client. Where the
    number of clients is not given, it is that of those with samples.

    >>> [samples.tolist() for samples in samples_by_client(np.array([1, 0, -1, 1]), clients=2)]
    [[1], [0, 3]]
    """
    clients = int(owner.max(initial=-1)) + 1 if clients is None else clients
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(clients + 1)))[1:-1]


def as_labels(labels: Any) -> Indices:
    """Labels as an array, one per sample."""
    if hasattr(labels, "labels") or hasattr(labels, "train"):
        refuse("labels", labels, "the labels alone, one per sample, such as source.train.labels")
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, RuntimeError):
        refuse("labels", labels, "one label per sample, shape [samples]")
    if array.ndim != 1:
        refuse("labels", f"an array of shape {array.shape}", "one label per sample, shape [samples]")
    return array


def as_owners(owners: Any, samples: int) -> Indices | None:
    """Natural owners as an array, one whole number per sample; None where the data knows none."""
    if owners is None:
        return None
    array = np.asarray(owners)
    if array.shape != (samples,) or array.dtype.kind not in "iu":
        shown = f"{array.dtype} of shape {array.shape}"
        refuse("owners", shown, f"whole numbers, one for each of the {samples} samples")
    return array


def _spread(
    kind: Spread, labels: Indices, clients: int, min_size: int, rng: np.random.Generator, *, owned: bool
) -> Indices:
    if clients * min_size > len(labels):
        raise InputError(
            f"clients={clients} is not accepted: with at least {min_size} samples each (usually one batch) they need "
            f"{clients * min_size} samples, but there are {len(labels)}; use fewer clients or a smaller batch"
            + (", or partition natural: this data says whose each sample is" if owned else "")
        )
    return fill(kind.owners(labels, clients, rng), clients, min_size, rng)
