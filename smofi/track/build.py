"""Trackers by name, for a run folder: a run that is resumed goes on in the record it began."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smofi.errors import InputError, check_choice
from smofi.track.mlflow import MLflow
from smofi.track.tensorboard import TensorBoard
from smofi.track.tracker import Tracker
from smofi.track.wandb import WandB

IDS = "tracking.json"


def tracker(name: str, folder: str | os.PathLike[str], config: Mapping[str, Any], run_name: str) -> Tracker:
    """The tracker called `name` for the run in `folder`: "tensorboard", "wandb" or "mlflow".

    TensorBoard and Weights & Biases write below the folder; MLflow writes to MLFLOW_TRACKING_URI or, if that is not
    set, to mlflow.db beside the folder, which all runs there share.

    >>> tracker("tensorbord", "runs/first", {}, "first")
    Traceback (most recent call last):
    smofi.errors.InputError: track='tensorbord' is not accepted: expected one of tensorboard, wandb, mlflow (did you \
mean 'tensorboard'?)
    """
    return TRACKERS[check_choice("track", name, TRACKERS)](Path(folder), config, run_name)


def _tensorboard(folder: Path, config: Mapping[str, Any], run_name: str) -> Tracker:
    return TensorBoard(folder / "tensorboard", config)


def _wandb(folder: Path, config: Mapping[str, Any], run_name: str) -> Tracker:
    folder.mkdir(parents=True, exist_ok=True)
    known = _known_id(folder, "wandb")
    resumed: dict[str, Any] = {"id": known, "resume": "allow"} if known else {}
    run = WandB(config=config, name=run_name, dir=str(folder), **resumed)
    _remember_id(folder, "wandb", run.id)
    return run


def _mlflow(folder: Path, config: Mapping[str, Any], run_name: str) -> Tracker:
    folder.mkdir(parents=True, exist_ok=True)
    beside = f"sqlite:///{folder.resolve().parent / 'mlflow.db'}"
    uri = os.environ.get("MLFLOW_TRACKING_URI") or beside
    run = MLflow(tracking_uri=uri, config=config, run_name=run_name, id=_known_id(folder, "mlflow"))
    _remember_id(folder, "mlflow", run.id)
    return run


TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], str], Tracker]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def _ids(folder: Path) -> dict[str, str]:
    path = folder / IDS
    try:
        ids: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}; without it, a new record is begun") from error
    return ids


def _known_id(folder: Path, name: str) -> str | None:
    return _ids(folder).get(name)


def _remember_id(folder: Path, name: str, id: str) -> None:
    (folder / IDS).write_text(json.dumps({**_ids(folder), name: id}))
