"""Whose samples a client has, where data has owners: what the client is called, and which test samples are its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from smofi.data.partitions.natural import Indices
from smofi.data.source import Source


def owners_of_clients(source: Source, indices: Sequence[Indices]) -> Indices | None:
    """The owner of each client's samples; None unless every client has the samples of one owner, and no two of the
    same."""
    if source.owner is None or not all(map(len, indices)):
        return None
    found = [np.unique(source.owner[samples]) for samples in indices]
    owners = np.array([some[0] for some in found], dtype=np.int64)
    alone = all(len(some) == 1 for some in found) and len(np.unique(owners)) == len(owners)
    return owners if alone else None


def names_of_clients(source: Source, owners: Indices | None) -> tuple[str, ...]:
    """What the data calls these owners, each once; nothing if it has no names for them."""
    if owners is None or not source.owners:
        return ()
    names = [source.owners[owner] for owner in owners]
    often = Counter(names)
    return tuple(name if often[name] == 1 else f"{name} ({number})" for number, name in enumerate(names))


def clients_of_tests(source: Source, owners: Indices | None, chosen: Indices) -> Indices | None:
    """The client that each of the chosen test samples comes from, -1 for none; None if that is not known, or if no
    client has any.

    >>> import torch
    >>> from smofi.data.samples import TensorSamples
    >>> blank = TensorSamples.of(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    >>> source = Source("blank", blank, blank, ("a", "b"), test_owner=np.array([5, 7, 6, 5]))
    >>> clients_of_tests(source, np.array([7, 5]), np.arange(4)).tolist()
    [1, 0, -1, 1]
    """
    if owners is None or source.test_owner is None:
        return None
    order = np.argsort(owners)
    theirs = source.test_owner[chosen]
    place = np.searchsorted(owners, theirs, sorter=order).clip(max=len(owners) - 1)
    clients: Indices = np.where(owners[order[place]] == theirs, order[place], -1)
    return clients if (clients >= 0).any() else None
