"""Runs followed in TensorBoard, Weights & Biases or MLflow: each tracker is a callback for `smofi.train`.

Public: the names in `__all__`.
"""

from __future__ import annotations

from smofi.track.trackers import (
    TRACKERS,
    Combined,
    MLflow,
    TensorBoard,
    Tracker,
    WandB,
    combine,
    tracker,
    trackers_of,
)

__all__ = ["TRACKERS", "Combined", "MLflow", "TensorBoard", "Tracker", "WandB", "combine", "tracker", "trackers_of"]
