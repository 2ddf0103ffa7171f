"""A run's state in one file: safetensors, with small values as JSON in its header; checksums reveal damage."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from smofi.errors import SmofiError
from smofi.files import write_atomically

FORMAT = "smofi-checkpoint-1"
HISTORY = "history"
"""The history is a tensor too, of compressed JSON: it could outgrow the header, whose size is limited."""


class DamagedCheckpoint(SmofiError):
    """A checkpoint that cannot be read, or is not what was written."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """The content of a checkpoint file: tensors by name, a record for each round, and small values by name."""

    tensors: dict[str, Tensor]
    history: list[dict[str, Any]]
    notes: dict[str, Any]


def write_checkpoint(path: Path, checkpoint: StoredCheckpoint) -> None:
    """Write so that the file is either whole or absent, whatever happens meanwhile."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    tensors[HISTORY] = _compress(checkpoint.history)
    about = {
        "format": FORMAT,
        "checksums": {name: _checksum(tensor) for name, tensor in tensors.items()},
        "notes": checkpoint.notes,
    }
    write_atomically(path, save(tensors, metadata={"smofi": json.dumps(about)}))


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read and verify; raises DamagedCheckpoint, naming the file, if anything is wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["smofi"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if about["format"] != FORMAT:
            raise DamagedCheckpoint(f"{path} has format {about['format']!r}: expected {FORMAT!r}")
        for name, checksum in about["checksums"].items():
            if _checksum(tensors[name]) != checksum:
                raise DamagedCheckpoint(f"{path} is damaged: {name} is not what was written")
        history = _decompress(tensors.pop(HISTORY))
        return StoredCheckpoint(tensors, history, about["notes"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, DamagedCheckpoint):
            raise
        raise DamagedCheckpoint(f"{path} cannot be read as a checkpoint: {error}") from error


def _compress(history: list[dict[str, Any]]) -> Tensor:
    return torch.from_numpy(np.frombuffer(zlib.compress(json.dumps(history).encode()), dtype=np.uint8).copy())


def _decompress(compressed: Tensor) -> list[dict[str, Any]]:
    history = json.loads(zlib.decompress(compressed.numpy().tobytes()))
    if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
        raise ValueError("its history is not a list of records")
    return history


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.contiguous().view(torch.uint8).numpy().data) if tensor.numel() else 0
