"""A run's state between two rounds, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from smofi.engine.events import Record


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on: tensors by name, the history, and small values by name."""

    tensors: dict[str, Tensor]
    history: list[Record]
    notes: dict[str, Any]
