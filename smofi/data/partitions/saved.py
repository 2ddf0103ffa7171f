"""A partition that was saved: the file that every run folder has, read again or handed to another run."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from smofi.errors import InputError, refuse

Owners: TypeAlias = npt.NDArray[np.int32]

PREFIX, FILE, TENSOR = "file:", "partition.safetensors", "owner"
UNUSED = -2


@dataclass(frozen=True)
class Saved:
    """The partition in a run folder or in its `partition.safetensors`, taken as it is."""

    path: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"

    def clients_of(self, labels: npt.NDArray[Any], clients: int) -> Owners:
        """The client of each sample, -1 for validation, -2 for unused; refuses other data or other clients."""
        owners = read_partition(self.path)
        if len(owners) != len(labels):
            raise InputError(
                f"partition='{self}' is not accepted: it divides {len(owners)} samples and this data has "
                f"{len(labels)}; expected the data it was made for"
            )
        if _recorded_labels(self.path) not in (None, labels_hash(labels)):
            raise InputError(
                f"partition='{self}' is not accepted: it was made for data with other labels; expected the data it was "
                f"made for"
            )
        if (found := int(owners.max()) + 1) != clients:
            refuse("clients", clients, f"{found}, the clients of {self}")
        return owners


def saved(path: str) -> Saved:
    """The same clients as in another run, by its folder or its partition file.

    >>> str(saved("runs/a"))
    'file:runs/a'
    """
    if not path:
        refuse("partition", PREFIX, "a run folder or its partition file behind it, as file:runs/a")
    return Saved(path)


def read_partition(path: str | Path) -> Owners:
    """The client of each sample, -1 for validation, -2 for unused, from a run folder or its partition file.

    >>> read_partition("no-such-run")
    Traceback (most recent call last):
    smofi.errors.InputError: no-such-run does not exist: expected a run folder or its partition.safetensors
    """
    path = _file(Path(path))
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            if names != [TENSOR]:
                raise InputError(f"{path} is no partition: expected one tensor called {TENSOR}, and it has {names}")
            tensor = file.get_slice(TENSOR)
            kind, shape = tensor.get_dtype(), tensor.get_shape()
            if kind != "I32" or len(shape) != 1:
                raise InputError(f"{path} is no partition: expected int32 of shape [samples], not {kind} of {shape}")
            owners: Owners = file.get_tensor(TENSOR)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read as a partition: {error}") from None
    if fault := _fault(owners):
        raise InputError(f"{path} is no partition: {fault}")
    return owners


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
    path = Path(path)
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(partition_bytes(owners))
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def partition_bytes(owners: npt.NDArray[Any], labels: npt.NDArray[Any] | None = None) -> bytes:
    """The content of such a file; with the labels, it also knows which data it is for."""
    about = None if labels is None else {"labels_sha256": labels_hash(labels)}
    return bytes(save({TENSOR: np.ascontiguousarray(owners, dtype="<i4")}, metadata=about))


def labels_hash(labels: npt.NDArray[Any]) -> str:
    """A fingerprint of the data that a partition divides.

    >>> labels_hash(np.array([0, 1]))[:8]
    '9d34149f'
    """
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def _recorded_labels(path: str | Path) -> str | None:
    with safe_open(_file(Path(path)), framework="np") as file:
        return (file.metadata() or {}).get("labels_sha256")


def _file(path: Path) -> Path:
    """The partition file itself; nothing but a regular file is opened."""
    try:
        found = path / FILE if path.is_dir() else path
        if found.is_file():
            return found
        inside = next(iter(sorted(path.glob(f"*/{FILE}"))), None) if path.is_dir() else None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if inside:
        raise InputError(f"{path} has several runs in it: expected one of them, as {inside.parent}")
    if path.is_dir():
        raise InputError(f"{path} has no {FILE}: expected a run folder")
    missing = "is no regular file" if path.exists() else "does not exist"
    raise InputError(f"{path} {missing}: expected a run folder or its {FILE}")


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
