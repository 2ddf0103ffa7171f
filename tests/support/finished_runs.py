"""Folders of finished runs with the accuracies that a test wants, as runs leave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from support.run_folder import write_run

SETTINGS = """data: digits
clients: 10
partition: {partition}
method: ['{method}']
cut: "{cut}"
rounds: {rounds}
seed: {seed}
"""


def put_run(
    path: Path,
    method: str,
    values: Sequence[float | None],
    *,
    seed: int = 0,
    hours: Sequence[float] = (),
    result: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    partition: str = "iid",
    cut: str = "1",
) -> Path:
    """Make `path` hold a run that measured these accuracies; finished, unless it has fewer than its `rounds`."""
    method = method.replace("'", "''")
    settings = SETTINGS.format(method=method, seed=seed, rounds=rounds or len(values), partition=partition, cut=cut)
    ends = [{"virtual_end": 3600 * hour} for hour in hours] or [{}] * len(values)
    records = [
        {"round": number, "accuracy": value, "seconds": 1.0, **end}
        for number, (value, end) in enumerate(zip(values, ends, strict=True), start=1)
    ]
    writer = write_run(path, settings, records, {"data_sha256": "d" * 64, **(about or {})})
    if rounds is None or result is not None:
        ended = {"rounds": len(values), "stopped": None, "diverged": False, **(result or {})}
        writer.write_end({"weight": torch.zeros(1)}, ended)
    return path
