"""Cells of sweeps, and run folders for them as a run leaves them, without any training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, config_yaml
from smofi.sweep.store import Cell
from support.run_folder import write_run

TINY: dict[str, Any] = {
    "clients": 4,
    "partition": "iid",
    "participation": 0.5,
    "model": "cnn",
    "width": 2,
    "local_epochs": 1,
    "batch_size": 32,
    "max_train": 200,
    "max_test": 50,
    "rounds": 1,
}
"""A run on digits that takes a moment."""


def tiny(**settings: Any) -> Config:
    return Config(**{**TINY, "method": "fedavg", **settings})


def cell(**settings: Any) -> Cell:
    return Cell(tiny(**settings))


def record(round: int, accuracy: float, validation: float | None = None) -> dict[str, Any]:
    """What metrics.jsonl has of a round."""
    return {
        "round": round,
        "accuracy": accuracy,
        "loss": 1.0,
        "train_loss": 1.0,
        "seconds": 0.5,
        "selected": [0, 1],
        "steps": [1, 1],
        "learning_rate": 0.05,
        "cut": "1",
        "metrics": {"top1": accuracy},
        "validation": validation,
    }


def ran(
    path: Path,
    config: Config,
    accuracies: Sequence[float] | None = None,
    *,
    validation: Sequence[float] = (),
    ended: bool = True,
    diverged: bool = False,
) -> Path:
    """Make `path` hold a run with this configuration: all its rounds, or those with these accuracies."""
    values = [0.5] * config.rounds if accuracies is None else accuracies
    held_out: Sequence[float | None] = validation or [None] * len(values)
    rounds = [record(number, *both) for number, both in enumerate(zip(values, held_out, strict=True), 1)]
    decided = config.model_copy(update={"executor": ("vmap",), "workers": 1})
    writer = write_run(path, config_yaml(decided), rounds)
    if ended:
        result = {"rounds": len(rounds), "stopped": "not finite" if diverged else None, "diverged": diverged}
        writer.write_end({"weight": torch.zeros(2)}, result)
    return path
