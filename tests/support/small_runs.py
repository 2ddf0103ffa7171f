"""Finished runs of an item without training: folders with the settings of its cells and made-up accuracies."""

from __future__ import annotations

from pathlib import Path

from smofi.config import config_yaml
from smofi.sweep.store import Cell
from support.run_folder import write_run


def write_finished(store: Path, cell: Cell, accuracies: list[float]) -> Path:
    """Make a folder below `store` hold the finished run of a cell; the rounds after these repeat the last accuracy."""
    rounds = cell.config.rounds
    values = [*accuracies, *[accuracies[-1]] * (rounds - len(accuracies))][:rounds]
    records = [
        {"round": number, "accuracy": value, "seconds": 0.5, "virtual_end": 36.0 * number}
        for number, value in enumerate(values, start=1)
    ]
    path = store / cell.name
    writer = write_run(path, config_yaml(cell.config), records, {"smofi": "0.1.0", "seed": cell.config.seed})
    writer.write_end({}, {"rounds": rounds, "stopped": None, "diverged": False})
    return path
