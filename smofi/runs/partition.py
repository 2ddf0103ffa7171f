"""The partition file of a run folder: which client has which sample, and the fingerprints of both sides of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from smofi.errors import InputError
from smofi.files import write_atomically
from smofi.later import np
from smofi.runs.folder import RunFolder

if TYPE_CHECKING:
    import numpy.typing as npt

PARTITION, TENSOR, ABOUT = "partition.safetensors", "owner", "smofi"
OWNERS, LABELS = "owner_sha256", "labels_sha256"


@dataclass(frozen=True, eq=False)
class StoredPartition:
    """The content of a partition file: the number of each sample's client, and the fingerprint of the labels that it
    was made for, if that is known. `path` is the file itself."""

    path: Path
    owners: npt.NDArray[np.int32]
    labels: str | None


def read_partition_file(path: Path) -> StoredPartition:
    """The partition in a run folder, or in a file of that format; in a run folder it is as the run saved it."""
    path = _find(path)
    if (run := RunFolder(path.parent)).has_run and path.name == PARTITION:
        run.checked(PARTITION)
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            if names != [TENSOR]:
                raise InputError(f"{path} is no partition: expected one tensor called {TENSOR}, but it has {names}")
            tensor = file.get_slice(TENSOR)
            kind, shape = tensor.get_dtype(), tensor.get_shape()
            if kind != "I32" or len(shape) != 1:
                raise InputError(f"{path} is no partition: expected int32 of shape [samples], not {kind} of {shape}")
            owners, about = file.get_tensor(TENSOR), _known((file.metadata() or {}).get(ABOUT, "{}"))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read as a partition: {error}") from None
    if about.get(OWNERS) not in (None, partition_hash(owners)):
        raise InputError(f"{path} is damaged: it is not the partition that was written (its checksum differs)")
    return StoredPartition(path, owners, about.get(LABELS))


def write_partition_file(path: Path, owners: npt.NDArray[Any]) -> None:
    """Write the client of each sample."""
    write_atomically(path, encode_partition(owners))


def encode_partition(owners: npt.NDArray[Any], labels: npt.NDArray[Any] | None = None) -> bytes:
    """The content of a partition file; with the labels, it also knows which data it is for."""
    from safetensors.numpy import save

    known = {OWNERS: partition_hash(owners), LABELS: None if labels is None else labels_hash(labels)}
    about = {ABOUT: json.dumps(known)}  # a single one: several are written in any order
    return bytes(save({TENSOR: np.ascontiguousarray(owners, dtype="<i4")}, metadata=about))


def partition_hash(owners: npt.NDArray[Any]) -> str:
    """The fingerprint of which client has which sample.

    >>> partition_hash(np.zeros(3, dtype=np.int32))[:8]
    '15ec7bf0'
    """
    return hashlib.sha256(np.ascontiguousarray(owners, dtype="<i4").tobytes()).hexdigest()


def labels_hash(labels: npt.NDArray[Any]) -> str:
    """The fingerprint of the data that a partition divides.

    >>> labels_hash(np.array([0, 1]))[:8]
    '9d34149f'
    """
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def _known(text: str) -> dict[str, Any]:
    """What a partition file says of itself."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        known = None
    return known if isinstance(known, dict) else {OWNERS: ""}  # which is no checksum


def _find(path: Path) -> Path:
    """The partition file itself; nothing but a regular file is opened."""
    try:
        found = path / PARTITION if path.is_dir() else path
        if found.is_file():
            return found
        depths = ("*", "*/*") if path.is_dir() else ()  # of several methods, of several seeds
        inside = next((one for depth in depths for one in sorted(path.glob(f"{depth}/{PARTITION}"))), None)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if inside:
        raise InputError(f"{path} contains several runs: expected one of them, such as {inside.parent}")
    if path.is_dir():
        raise InputError(f"{path} has no {PARTITION}: expected a run folder")
    missing = "is no regular file" if path.exists() else "does not exist"
    raise InputError(f"{path} {missing}: expected a run folder or its {PARTITION}")
