"""Runs followed in TensorBoard, Weights & Biases or MLflow: each tracker is a callback for `smofi.train`.

Public: the names in `__all__`.
"""

from __future__ import annotations

from smofi.track.build import TRACKERS, tracker, trackers_of
from smofi.track.mlflow import MLflow
from smofi.track.tensorboard import TensorBoard
from smofi.track.tracker import Combined, Tracker, combine
from smofi.track.wandb import WandB

__all__ = ["TRACKERS", "Combined", "MLflow", "TensorBoard", "Tracker", "WandB", "combine", "tracker", "trackers_of"]
