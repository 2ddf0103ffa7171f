"""Run folders for a page: written by hand, each in a moment, with the real data's labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from smofi import data
from smofi.runs import RunFolder, RunWriter

SETTINGS: dict[str, Any] = {
    "data": "digits",
    "clients": 8,
    "partition": "iid",
    "model": "cnn",
    "width": 2,
    "batch_size": 16,
    "cut": "1",
}


def write_result(
    path: Path,
    method: str = "smofi",
    seed: int = 0,
    values: Sequence[float | None] = (0.5, 0.7, 0.8),
    *,
    rounds: int = 0,
    diverged: bool = False,
    about: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Make `path` hold a run that reached these values, finished unless `rounds` says that there are more to come."""
    path.mkdir(parents=True)
    labels = data.load("digits").train.labels.numpy()
    config = SETTINGS | {"method": [method], "seed": seed, "rounds": rounds or len(values)} | settings
    writer = RunWriter(RunFolder(path))
    known = {"smofi": "0.1.0", "started": "2025-05-05T10:00:00+0000", "command": "smofi run"} | dict(about or {})
    owners = np.minimum(np.arange(len(labels)) // 150, 7).astype(np.int32)
    writer.describe(yaml.safe_dump(config), known, owners, labels)
    writer.write_records(_record(number, value) for number, value in enumerate(values, start=1))
    if not rounds:
        writer.write_end({"w": torch.zeros(1)}, {"rounds": len(values), "stopped": None, "diverged": diverged})
    return path


def _record(number: int, value: float | None) -> dict[str, Any]:
    return {"round": number, "accuracy": value, "train_loss": 1.0 / number, "seconds": 1.0}


def write_seeds(folder: Path, rounds: int = 20, seeds: int = 3, methods: Sequence[str] = ("fedavg", "smofi")) -> Path:
    """Runs of several methods and seeds; each method learns faster than the one before it."""
    for place, method in enumerate(methods):
        for seed in range(seeds):
            speed = 0.15 * (1 + place) + 0.02 * seed
            values = [round(0.9 - 0.8 * float(np.exp(-speed * number)), 6) for number in range(1, rounds + 1)]
            write_result(folder / f"{place}-{seed}", method, seed, values)
    return folder
