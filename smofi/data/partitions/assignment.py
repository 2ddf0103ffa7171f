"""The client of every training sample, validation split included: what a run keeps in its folder."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from smofi.data.partitions.divide import as_labels, clients_of, samples_by_client
from smofi.data.partitions.kinds import Kind, parse
from smofi.data.partitions.natural import Indices, Natural
from smofi.data.partitions.saved import Owners, Saved
from smofi.errors import check_number, refuse
from smofi.seeds import generator

VALIDATION = -1


def assign(
    labels: Any,
    clients: int | None,
    how: str | Kind,
    *,
    min_size: int,
    seed: int,
    validation: float = 0.0,
    owners: Any = None,
) -> Owners:
    """The client of each sample, -1 for those held out for validation, -2 for those not used.

    The validation share is drawn from all samples before the rest is divided. With "natural" each client holds out its
    own share, so that validation has the same owners as training; with "file:PATH" the file has decided.

    >>> sorted(assign([0, 1, 0, 1, 0], 2, "iid", min_size=2, seed=0, validation=0.2).tolist())
    [-1, 0, 0, 1, 1]
    """
    check_number("validation", validation, low=0, below=1)
    array = as_labels(labels)
    kind = parse(how) if isinstance(how, str) else how
    if isinstance(kind, Saved):
        if validation:
            refuse("validation", validation, f"0 with partition='{kind}', whose file says what is held out")
        return kind.clients_of(array, clients)
    if isinstance(kind, Natural):
        owner = _of_each_client(array, clients, kind, min_size, seed, validation, owners)
    else:
        owner = _of_all(array, clients, kind, min_size, seed, validation)
    if validation and not (owner == VALIDATION).any():
        refuse("validation", validation, f"0, or at least one of the {len(array)} training samples")
    return owner


def _of_all(labels: Indices, clients: int | None, how: Kind, min_size: int, seed: int, validation: float) -> Owners:
    shuffled = generator(seed, "validation").permutation(len(labels))
    rest = np.sort(shuffled[round(validation * len(labels)) :])
    owner = np.full(len(labels), VALIDATION, dtype=np.int32)
    owner[rest] = clients_of(labels[rest], clients, how, min_size=min_size, seed=seed)
    return owner


def _of_each_client(
    labels: Indices, clients: int | None, how: Natural, min_size: int, seed: int, validation: float, owners: Any
) -> Owners:
    # The fewest samples of which min_size are left when the share is gone.
    needed = bisect.bisect_left(range(len(labels) + 1), min_size, key=lambda size: size - round(validation * size))
    owner: Owners = clients_of(labels, clients, how, min_size=needed, seed=seed, owners=owners).astype(np.int32)
    if validation:
        rng = generator(seed, "validation")
        for samples in samples_by_client(owner, clients):
            owner[rng.permutation(samples)[: round(validation * len(samples))]] = VALIDATION
    return owner
