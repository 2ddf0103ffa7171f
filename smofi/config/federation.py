"""What a configuration's data becomes: every client's samples, those held out, and the client of each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smofi import data
from smofi.config.naming import clients_of_tests, names_of_clients, owners_of_clients
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions.assignment import VALIDATION, assign
from smofi.data.partitions.divide import samples_by_client
from smofi.data.partitions.natural import Indices
from smofi.data.partitions.saved import UNUSED, Owners
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
        """The test samples of each client, None for one without; None where it is not known whose they are."""
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
    """The same for each seed: the data is loaded once, and divided anew."""
    source = read_source(config, progress)
    return {seed: divide(config.with_seed(seed), source) for seed in config.each_seed}


def read_source(config: Config, progress: ReadProgress = silent) -> Source:
    """The data that a configuration names."""
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
    """Data divided as the configuration says."""
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
    """All test samples; where some owners are left out in training, those of the others, if there are any."""
    everything = np.arange(len(source.test))
    if source.owner is None or source.test_owner is None or not (owners == UNUSED).any():
        return everything
    theirs = np.isin(source.test_owner, np.unique(source.owner[owners >= 0]))
    return np.flatnonzero(theirs) if theirs.any() else everything
