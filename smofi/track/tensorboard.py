"""TensorBoard: an event file that `tensorboard --logdir FOLDER` shows, also while the run is going."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smofi.track.tracker import Tracker, need, started


class TensorBoard(Tracker):
    """Write a run into an event file below `folder`. Needs the extra `tensorboard`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, TensorBoard(folder, config={"seed": 0}) as tracker:
    ...     tracker.numbers(1, {"accuracy": 0.5})
    """

    name = "TensorBoard"

    def __init__(self, folder: str | os.PathLike[str], config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        need("tensorboard", "tensorboard")
        self._summary = need("torch.utils.tensorboard.summary", "tensorboard")
        self._event = need("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        records = need("tensorboard.summary.writer.record_writer", "tensorboard")
        self.where = str(folder)
        # Written here, not by SummaryWriter: when the disk is full, its thread fails and the error cannot be caught.
        self._file = started(self.name, lambda: _new_file(Path(folder)))
        self._writer = records.RecordWriter(self._file)
        started(self.name, lambda: self._write(file_version="brain.Event:2"))

    def hyperparameters(self, values: dict[str, Any]) -> None:
        plain = {name: _plain(value) for name, value in values.items()}
        experiment, start, self._session_end = self._summary.hparams(plain, {self.judged: 0.0, "train_loss": 0.0})
        self._write(summary=experiment)
        self._write(summary=start)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._write(summary=self._summary.scalar(name, value), step=round)

    def text(self, kind: str, message: str, round: int) -> None:
        self._write(summary=self._summary.text(kind, message), step=round)

    def end(self, completed: bool) -> None:
        with self._file:
            if completed and hasattr(self, "_session_end"):
                self._write(summary=self._session_end)

    def _write(self, **event: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **event).SerializeToString())
        self._writer.flush()


def _new_file(folder: Path) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    return open(folder / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}", "xb")


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, (bool, int, float, str)) else str(value)
