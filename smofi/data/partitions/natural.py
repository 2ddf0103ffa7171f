"""The partition that data brings along: every sample stays with its owner: a role, a speaker, a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from smofi.data.partitions.saved import UNUSED
from smofi.errors import InputError, check_count, refuse
from smofi.later import np

if TYPE_CHECKING:
    import numpy.typing as npt

Indices: TypeAlias = "npt.NDArray[np.int64]"

NATURAL = "natural"


@dataclass(frozen=True)
class Natural:
    """Some of the owners become the clients; samples of the others are not used, and no client gets any of them."""

    most: int | None = None

    def __str__(self) -> str:
        return NATURAL if self.most is None else f"{NATURAL}(most={self.most})"

    def clients_of(
        self, owners: Indices | None, clients: int | None, min_size: int, rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """The client of each sample, or UNUSED. Clients are numbered in the order of their owners.

        Without a number of clients, every owner with `min_size` samples is one.
        """
        if owners is None:
            raise InputError(
                f"partition='{self}' is not accepted: this data does not say who owns which sample; expected data with "
                f"a client column, with a folder level per client, or a source such as shakespeare or speech-commands"
            )
        names, owner_index, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        able = np.flatnonzero(sizes >= min_size)
        self._refuse_too_few(sizes, len(able), clients, min_size)
        chosen = len(able) if clients is None else clients
        client_of = np.full(len(names), UNUSED)
        client_of[np.sort(rng.choice(able, chosen, replace=False))] = np.arange(chosen)
        client = client_of[owner_index]
        if self.most is not None:
            shuffled = rng.permutation(len(owner_index))
            by_owner = shuffled[np.argsort(owner_index[shuffled], kind="stable")]
            rank = np.arange(len(owner_index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            client[by_owner[rank >= self.most]] = UNUSED
        return client

    def _refuse_too_few(self, sizes: Indices, able: int, clients: int | None, min_size: int) -> None:
        if self.most is not None and self.most < min_size:
            refuse("most", self.most, f"at least {min_size}, the samples every client must have")
        if able < (clients or 1):
            raise InputError(
                f"clients={clients} is not accepted: {able} of the {len(sizes)} owners in this data have the "
                f"min_size={min_size} samples that partition='{self}' asks of a client; use at most {able} clients "
                f"or a smaller batch"
                if able
                else f"partition='{self}' with min_size={min_size} is not accepted: none of the {len(sizes)} owners in "
                f"this data has that many samples (the largest has {sizes.max(initial=0)}); use a smaller batch"
            )


def natural(most: int | None = None) -> Natural:
    """Samples stay with their owners; of an owner with more than `most`, that many are drawn at random.

    >>> str(natural()), str(natural(most=400))
    ('natural', 'natural(most=400)')
    """
    return Natural(None if most is None else check_count("most", most))
