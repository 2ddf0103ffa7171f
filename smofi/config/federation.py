"""Divide data as a configuration says: every client's samples and name, those held out, the client of each sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smofi import data
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions import UNUSED, VALIDATION, Indices, Owners, assign, samples_by_client
from smofi.data.samples import TensorSamples
from smofi.data.source import Source

if TYPE_CHECKING:
    from smofi.config.config import Config

# --------------------------------------------------------------------------------------------------------------------
# Whose samples a client has, where data has owners: what the client is called, and which test samples are its own.


def owners_of_clients(source: Source, indices: Sequence[Indices]) -> Indices | None:
    """Return the owner of each client's samples; None unless each has those of one, and no two share one."""
    if source.owner is None or not all(map(len, indices)):
        return None
    found = [np.unique(source.owner[samples]) for samples in indices]
    owners = np.array([some[0] for some in found], dtype=np.int64)
    alone = all(len(some) == 1 for some in found) and len(np.unique(owners)) == len(owners)
    return owners if alone else None


def names_of_clients(source: Source, owners: Indices | None) -> tuple[str, ...]:
    """Return what the data calls these owners, each once; nothing if it has no names for them."""
    if owners is None or not source.owners:
        return ()
    names = [source.owners[owner] for owner in owners]
    often = Counter(names)
    return tuple(name if often[name] == 1 else f"{name} ({number})" for number, name in enumerate(names))


def clients_of_tests(source: Source, owners: Indices | None, chosen: Indices) -> Indices | None:
    """Return the client that each of the chosen test samples comes from, -1 for none; None if no client is known
    to have any.

    >>> import torch
    >>> from smofi.data.samples import TensorSamples
    >>> blank = TensorSamples.of(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    >>> source = Source("blank", blank, blank, ("a", "b"), test_owner=np.array([5, 7, 6, 5]))
    >>> clients_of_tests(source, np.array([7, 5]), np.arange(4)).tolist()
    [1, 0, -1, 1]
    """
    if owners is None or source.test_owner is None:
        return None
    client_of = {owner: client for client, owner in enumerate(owners.tolist())}
    clients = np.array([client_of.get(owner, -1) for owner in source.test_owner[chosen].tolist()], dtype=np.int64)
    return clients if (clients >= 0).any() else None


# --------------------------------------------------------------------------------------------------------------------
# What a configuration's data becomes: every client's samples, those held out, and the client of each sample.


@dataclass(frozen=True, eq=False)
class Federation:
    """Data divided among clients.

    `owners` has the client of each training sample, -1 for validation, -2 for samples that are not used; `indices`,
    the other way round, has the samples of each client, ascending. Where every client has the samples of an owner of
    its own, `client_names` are the owners' names, and `test_clients` has the client of each test sample, -1 for none.
    """

    source: Source
    owners: Owners
    indices: list[Indices]
    clients: list[TensorSamples]
    test: TensorSamples
    validation: TensorSamples | None
    client_names: tuple[str, ...] = ()
    test_clients: Indices | None = None

    def client_tests(self) -> list[TensorSamples | None] | None:
        """Return the test samples of each client, None for one without; None where it is not known whose they are."""
        if self.test_clients is None:
            return None
        _ = self.test.store  # images are resized once, for all clients
        found = samples_by_client(self.test_clients, len(self.clients))
        return [self.test[samples] if len(samples) else None for samples in found]


def gather(config: Config, progress: ReadProgress = silent) -> Federation:
    """Load the data and divide it, as the configuration says.

    >>> from smofi.config import Config
    >>> federation = gather(Config(clients=4, validation=0.1))
    >>> sorted(set(federation.owners.tolist())), len(federation.clients)
    ([-1, 0, 1, 2, 3], 4)
    """
    return divide(config, read_source(config, progress))


def gather_each(config: Config, progress: ReadProgress = silent) -> dict[int, Federation]:
    """Load the data once, and divide it anew for each seed."""
    source = read_source(config, progress)
    return {seed: divide(config.with_seed(seed), source) for seed in config.each_seed}


def read_source(config: Config, progress: ReadProgress = silent) -> Source:
    """Load the data that a configuration names."""
    return data.load(
        config.data,
        folder=config.data_folder,
        image_size=config.image_size,
        max_train=config.max_train,
        label_column=config.label_column,
        client_column=config.client_column,
        progress=progress,
        memory_limit=config.memory_limit,
    )


def divide(config: Config, source: Source) -> Federation:
    """Divide data as the configuration says."""
    owners = assign(
        source.train.labels.numpy(),
        config.clients,
        config.partition,
        min_size=config.batch_size,
        seed=config.seed,
        validation=config.validation,
        owners=source.owner,
    )
    held_out = np.flatnonzero(owners == VALIDATION)
    indices = samples_by_client(owners, config.clients)
    tests = _tests_of(source, owners)[: config.max_test]
    own = owners_of_clients(source, indices)
    return Federation(
        source=source,
        owners=owners,
        indices=indices,
        clients=[source.train[samples] for samples in indices],
        test=source.test[tests],
        validation=source.train[held_out] if len(held_out) else None,
        client_names=names_of_clients(source, own),
        test_clients=clients_of_tests(source, own, tests),
    )


def _tests_of(source: Source, owners: Owners) -> Indices:
    """Choose all test samples; where some owners are left out in training, those of the others, if there are any."""
    everything = np.arange(len(source.test))
    if source.owner is None or source.test_owner is None or not (owners == UNUSED).any():
        return everything
    theirs = np.isin(source.test_owner, np.unique(source.owner[owners >= 0]))
    return np.flatnonzero(theirs) if theirs.any() else everything
