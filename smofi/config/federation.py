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
    """Load the data and divide it, as the configuration says."""
    return divide(config, read_source(config, progress))


def gather_each(config: Config, progress: ReadProgress = silent) -> dict[int, Federation]:
    """Load the data once, and divide it anew for each seed."""
    source = read_source(config, progress)
    return {seed: divide(config.with_seed(seed), source) for seed in config.each_seed}


def read_source(config: Config, progress: ReadProgress = silent) -> Source:
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
    tests = np.arange(len(source.test))
    if source.owner is not None and source.test_owner is not None and (owners == UNUSED).any():
        # where owners are left out in training, their test samples are, too, unless there are no others
        theirs = np.isin(source.test_owner, np.unique(source.owner[owners >= 0]))
        tests = np.flatnonzero(theirs) if theirs.any() else tests
    tests = tests[: config.max_test]
    owner_of = _owners_of_clients(source, indices)
    names = [source.owners[owner] for owner in owner_of] if source.owners else []
    often = Counter(names)
    test_clients = None
    if source.test_owner is not None:
        client_of = {owner: client for client, owner in enumerate(owner_of)}
        found = np.array([client_of.get(owner, -1) for owner in source.test_owner[tests].tolist()], dtype=np.int64)
        test_clients = found if (found >= 0).any() else None
    return Federation(
        source=source,
        owners=owners,
        indices=indices,
        clients=[source.train[samples] for samples in indices],
        test=source.test[tests],
        validation=source.train[held_out] if len(held_out) else None,
        client_names=tuple(name if often[name] == 1 else f"{name} ({at})" for at, name in enumerate(names)),
        test_clients=test_clients,
    )


def _owners_of_clients(source: Source, indices: Sequence[Indices]) -> list[int]:
    """Return the owner of each client's samples; nothing unless each has those of one owner, and no two share one."""
    if source.owner is None or not all(map(len, indices)):
        return []
    found = [np.unique(source.owner[samples]).tolist() for samples in indices]
    owners = [owner for some in found for owner in some]
    return owners if len(found) == len(owners) == len(set(owners)) else []
