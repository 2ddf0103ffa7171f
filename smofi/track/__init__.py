"""Runs followed in TensorBoard, Weights & Biases or MLflow: each tracker is a callback for `smofi.train`.

tracker.py       what all trackers do: events become numbers and texts; a failure never stops the run
tensorboard.py, wandb.py, mlflow.py   one tracker each
build.py         trackers by name, for a run folder            combine.py   several callbacks as one

Public: the names in `__all__`.
"""

from __future__ import annotations

from smofi.track.build import TRACKERS, tracker, trackers_of
from smofi.track.combine import Combined, combine
from smofi.track.mlflow import MLflow
from smofi.track.tensorboard import TensorBoard
from smofi.track.tracker import Tracker
from smofi.track.wandb import WandB

__all__ = ["TRACKERS", "Combined", "MLflow", "TensorBoard", "Tracker", "WandB", "combine", "tracker", "trackers_of"]
