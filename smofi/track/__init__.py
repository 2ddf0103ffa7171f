"""Runs followed in TensorBoard, Weights & Biases or MLflow: each tracker is a callback for `smofi.train`.

Public: the names in `__all__`.
"""

from __future__ import annotations

from smofi.track.services import TRACKERS, MLflow, TensorBoard, WandB, tracker, trackers_of
from smofi.track.tracker import Combined, Tracker, combine

__all__ = ["TRACKERS", "Combined", "MLflow", "TensorBoard", "Tracker", "WandB", "combine", "tracker", "trackers_of"]
