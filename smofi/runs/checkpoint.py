"""A run's state in one file: safetensors, with small values as JSON in its header.

The history is not in it: that is metrics.jsonl, of which a state knows how many rounds it has seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from smofi.runs.manifest import DamagedFile

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "smofi-checkpoint-2"


@dataclass(frozen=True)
class StoredCheckpoint:
    """The state after a round, counted from 1: tensors by name, and small values by name."""

    round: int
    tensors: dict[str, Tensor]
    notes: dict[str, Any]

    def encode(self) -> bytes:
        """As the content of a file."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        about = {"format": FORMAT, "round": self.round, "notes": self.notes}
        return bytes(save(tensors, metadata={"smofi": json.dumps(about)}))


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """The state in a file; raises DamagedFile, naming it, if there is none."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["smofi"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if about["format"] != FORMAT:
            raise DamagedFile(f"{path} has format {about['format']!r}: expected {FORMAT!r}")
        return StoredCheckpoint(int(about["round"]), tensors, dict(about["notes"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path} cannot be read as a checkpoint: {error}") from error
