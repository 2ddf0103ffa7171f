"""A run's state in one file: safetensors, with small values as JSON in its header, complete or not there at all.

A file is written under a temporary name, flushed to the disk, and only then renamed; a checksum tells a damaged one.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from smofi.engine.events import Record
from smofi.errors import SmofiError

FORMAT = "smofi-checkpoint-1"
HISTORY = "history"
"""The history is a tensor too, of compressed JSON: in the header it could outgrow what a header may hold."""


class DamagedCheckpoint(SmofiError):
    """A checkpoint that cannot be read, or is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on: tensors by name, the history, and small values by name."""

    tensors: dict[str, Tensor]
    history: list[Record]
    notes: dict[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write so that the file is either whole or absent, whatever happens meanwhile."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    tensors[HISTORY] = _pack(checkpoint.history)
    about = {
        "format": FORMAT,
        "checksums": {name: _checksum(tensor) for name, tensor in tensors.items()},
        "notes": checkpoint.notes,
    }
    write_atomically(path, save(tensors, metadata={"smofi": json.dumps(about)}))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify; raises DamagedCheckpoint, naming the file, if anything is amiss."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["smofi"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if about["format"] != FORMAT:
            raise DamagedCheckpoint(f"{path} has format {about['format']!r}: expected {FORMAT!r}")
        for name, checksum in about["checksums"].items():
            if _checksum(tensors[name]) != checksum:
                raise DamagedCheckpoint(f"{path} is damaged: {name} is not what was written")
        history = _unpack(tensors.pop(HISTORY))
        return Checkpoint(tensors, history, about["notes"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, DamagedCheckpoint):
            raise
        raise DamagedCheckpoint(f"{path} cannot be read as a checkpoint: {error}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one go: temporary name, flush to disk, rename, flush the folder."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if not temporary.is_dir():
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _pack(history: list[Record]) -> Tensor:
    text = json.dumps([asdict(record) for record in history])
    return torch.from_numpy(np.frombuffer(zlib.compress(text.encode()), dtype=np.uint8).copy())


def _unpack(packed: Tensor) -> list[Record]:
    return [Record(**record) for record in json.loads(zlib.decompress(packed.numpy().tobytes()))]


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.contiguous().view(torch.uint8).numpy().data) if tensor.numel() else 0
