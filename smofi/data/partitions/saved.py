"""A partition that was saved: the file that every run folder has, read again or used by another run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from smofi.errors import InputError, refuse
from smofi.later import np
from smofi.runs import StoredPartition, labels_hash, read_partition_file, write_partition_file

if TYPE_CHECKING:
    import numpy.typing as npt

Owners: TypeAlias = "npt.NDArray[np.int32]"

PREFIX = "file:"
UNUSED = -2


@dataclass(frozen=True)
class Saved:
    """The partition in a run folder or in its `partition.safetensors`, taken as it is."""

    path: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"

    def clients_of(self, labels: npt.NDArray[Any], clients: int | None) -> Owners:
        """The client of each sample, -1 for validation, -2 for unused; refuses other data or other clients.

        Without a number of clients, there are as many as in the file.
        """
        stored = _read(Path(self.path))
        if len(stored.owners) != len(labels):
            raise InputError(
                f"partition='{self}' is not accepted: it divides {len(stored.owners)} samples and this data has "
                f"{len(labels)}; expected the data it was made for"
            )
        if stored.labels not in (None, labels_hash(labels)):
            raise InputError(
                f"partition='{self}' is not accepted: it was made for data with other labels; expected the data it was "
                f"made for"
            )
        if clients is not None and (divided := int(stored.owners.max()) + 1) != clients:
            refuse("clients", clients, f"{divided}, the clients of {self}")
        return stored.owners


def saved(path: str) -> Saved:
    """The same clients as in another run, by its folder or its partition file.

    >>> str(saved("runs/a"))
    'file:runs/a'
    """
    if not path:
        refuse("partition", PREFIX, "a run folder or its partition file after it, such as file:runs/a")
    return Saved(path)


def read_partition(path: str | Path) -> Owners:
    """The client of each sample, -1 for validation, -2 for unused, from a run folder or its partition file.

    >>> read_partition("no-such-run")
    Traceback (most recent call last):
    smofi.errors.InputError: no-such-run does not exist: expected a run folder or its partition.safetensors
    """
    return _read(Path(path)).owners


def write_partition(path: str | Path, owners: npt.NDArray[Any]) -> None:
    """Save the client of each sample, -1 for validation, -2 for unused, as a file that is never half written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "partition.safetensors"
    >>> write_partition(path, np.array([1, 0, -1]))
    >>> read_partition(path).tolist()
    [1, 0, -1]
    """
    owners = np.asarray(owners)
    if owners.ndim != 1 or owners.dtype.kind not in "iu":
        refuse("owners", f"{owners.dtype} of shape {owners.shape}", "whole numbers, one per sample")
    if fault := _fault(owners):
        raise InputError(f"owners are not accepted: {fault}")
    try:
        write_partition_file(Path(path), owners)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _read(path: Path) -> StoredPartition:
    stored = read_partition_file(path)
    if fault := _fault(stored.owners):
        raise InputError(f"{stored.path} is no partition: {fault}")
    return stored


def _fault(owners: npt.NDArray[Any]) -> str | None:
    """What keeps the numbers from being a partition."""
    low = int(owners.min(initial=0))
    if low < UNUSED:
        return f"a sample has client {low}; expected clients from 0, -1 for validation, -2 for unused"
    clients = np.unique(owners[owners >= 0])
    if not len(clients):
        return "no sample has a client"
    if clients[-1] != len(clients) - 1:
        gap = int(np.flatnonzero(clients != np.arange(len(clients)))[0])
        return f"client {gap} has no sample although there is a client {clients[-1]}; expected all numbers from 0"
    return None
