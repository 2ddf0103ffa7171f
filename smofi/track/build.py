"""Trackers by name, for a run folder: a resumed run continues the record that it started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smofi.errors import check_choice
from smofi.runs import RunFolder, folders_in, whole_of, write_tracker_id
from smofi.track.mlflow import MLflow
from smofi.track.tensorboard import TensorBoard
from smofi.track.tracker import Tracker
from smofi.track.wandb import WandB


def tracker(name: str, folder: str | os.PathLike[str], config: Mapping[str, Any], run_name: str) -> Tracker:
    """The tracker called `name` for the run in `folder`: "tensorboard", "wandb" or "mlflow".

    TensorBoard and Weights & Biases write below the folder; MLflow writes to MLFLOW_TRACKING_URI or, if that is not
    set, to mlflow.db beside the folder, which all runs there share; those of several seeds share the one in their
    common folder.

    >>> tracker("tensorbord", "runs/first", {}, "first")
    Traceback (most recent call last):
    smofi.errors.InputError: track='tensorbord' is not accepted: expected one of tensorboard, wandb, mlflow (did you \
mean 'tensorboard'?)
    """
    return TRACKERS[check_choice("track", name, TRACKERS)](RunFolder(Path(folder)), config, run_name)


def trackers_of(path: str | os.PathLike[str]) -> list[str]:
    """The trackers that have recorded the run in this folder, or any run of this comparison."""
    found = {name for folder in folders_in(Path(path)) for name in _recorded_by(folder)}
    return [name for name in TRACKERS if name in found]


def _recorded_by(folder: RunFolder) -> list[str]:
    return [*folder.tracker_ids(), *(["tensorboard"] if folder.tensorboard.is_dir() else [])]


def _tensorboard(folder: RunFolder, config: Mapping[str, Any], run_name: str) -> Tracker:
    return TensorBoard(folder.tensorboard, config)


def _wandb(folder: RunFolder, config: Mapping[str, Any], run_name: str) -> Tracker:
    folder.path.mkdir(parents=True, exist_ok=True)
    recorded = folder.tracker_ids().get("wandb")
    resumed: dict[str, Any] = {"id": recorded, "resume": "allow"} if recorded else {}
    run = WandB(config=config, name=run_name, dir=str(folder.path), **resumed)
    write_tracker_id(folder, "wandb", run.id)
    return run


def _mlflow(folder: RunFolder, config: Mapping[str, Any], run_name: str) -> Tracker:
    folder.path.mkdir(parents=True, exist_ok=True)
    path, whole = folder.path.resolve(), whole_of(RunFolder(folder.path.resolve()))
    beside = f"sqlite:///{(path.parent if whole == path else whole) / 'mlflow.db'}"
    uri = os.environ.get("MLFLOW_TRACKING_URI") or beside
    run = MLflow(tracking_uri=uri, config=config, run_name=run_name, id=folder.tracker_ids().get("mlflow"))
    write_tracker_id(folder, "mlflow", run.id)
    return run


TRACKERS: dict[str, Callable[[RunFolder, Mapping[str, Any], str], Tracker]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
