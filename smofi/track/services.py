"""Trackers by name: TensorBoard, Weights & Biases, MLflow. A resumed run continues the record that it started."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smofi.errors import check_choice
from smofi.runs import RunFolder, folders_in, whole_of, write_tracker_id
from smofi.track.tracker import Tracker, need, started


class TensorBoard(Tracker):
    """Write a run into an event file below `folder`, which `tensorboard --logdir FOLDER` shows, also while it is going.

    Needs the extra `tensorboard`.

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
        plain = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value) for key, value in values.items()
        }
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


class WandB(Tracker):
    """Record a run in a project of Weights & Biases (https://docs.wandb.ai). Needs the extra `wandb`.

    `mode` is "online", "offline", whose files `wandb sync` sends later, or "disabled"; if not given, what WANDB_MODE
    says, or online. Other keywords go to `wandb.init`: name, dir, id, entity, group, tags.
    """

    name = "Weights & Biases"

    def __init__(
        self,
        project: str = "smofi",
        *,
        config: Mapping[str, Any] | None = None,
        mode: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config)
        wandb = need("wandb", "wandb")
        # Its console is off: it would capture the terminal that the live display draws on.
        settings = wandb.Settings(console="off", silent=True)
        self.run = started(self.name, lambda: wandb.init(project=project, mode=mode, settings=settings, **options))
        self.id: str = self.run.id
        self.where: str = str(self.run.settings.sync_dir if self.run.offline else self.run.url)

    def hyperparameters(self, values: dict[str, Any]) -> None:
        self.run.config.update(values, allow_val_change=True)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        self.run.log(values, step=round)

    def text(self, kind: str, message: str, round: int) -> None:
        self.run.summary[kind] = self.collected(kind, message, round)

    def end(self, completed: bool) -> None:
        self.run.finish(exit_code=0 if completed else 1)


LONGEST_PARAMETER, LONGEST_NAME, MOST_METRICS = 6000, 250, 1000  # what MLflow's stores accept


class MLflow(Tracker):
    """Record a run in an experiment of MLflow (https://mlflow.org). Needs the extra `mlflow`.

    `tracking_uri` is a server's address or a local file, such as "sqlite:///mlflow.db"; if not given, MLflow's
    default, which MLFLOW_TRACKING_URI sets. `id` continues a run that was recorded before.
    """

    name = "MLflow"

    def __init__(
        self,
        experiment: str = "smofi",
        *,
        tracking_uri: str | None = None,
        config: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(config)
        mlflow = need("mlflow", "mlflow")
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it has a message for every table that it creates
        self._entities = need("mlflow.entities", "mlflow")
        self._new = id is None
        self.client = started(self.name, lambda: mlflow.MlflowClient(tracking_uri=tracking_uri))
        self.id: str = id or started(self.name, lambda: self._create_run(experiment, run_name))
        if id is not None:
            started(self.name, lambda: self.client.set_terminated(id, status="RUNNING"))
        self.where: str = self.client.tracking_uri

    def hyperparameters(self, values: dict[str, Any]) -> None:
        if self._new:  # MLflow never changes a parameter
            parameters = [self._entities.Param(name, str(v)[:LONGEST_PARAMETER]) for name, v in values.items()]
            self.client.log_batch(self.id, params=parameters)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(_accepted(name), v, now, round) for name, v in values.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + MOST_METRICS])

    def text(self, kind: str, message: str, round: int) -> None:
        self.client.set_tag(self.id, kind, self.collected(kind, message, round))

    def end(self, completed: bool) -> None:
        self.client.set_terminated(self.id, status="FINISHED" if completed else "FAILED")

    def _create_run(self, experiment: str, run_name: str | None) -> str:
        found = self.client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self.client.create_experiment(experiment)
        return str(self.client.create_run(number, run_name=run_name).info.run_id)


def _accepted(name: str) -> str:
    """Write a metric's name as MLflow takes it; clients may have names with other characters.

    >>> _accepted("metrics/per_client/St. Mary's, north")
    'metrics/per_client/St. Mary_s_ north'
    """
    return re.sub(r"[^\w./ -]", "_", name)[:LONGEST_NAME]


# --------------------------------------------------------------------------------------------------------------------
# Trackers by name, for a run folder.


def tracker(name: str, folder: str | os.PathLike[str], config: Mapping[str, Any], run_name: str) -> Tracker:
    """Open the tracker called `name` for the run in `folder`: "tensorboard", "wandb" or "mlflow".

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
    """Name the trackers that have recorded the run in this folder, or any run of this comparison."""
    folders = folders_in(Path(path))
    found = {name for folder in folders for name in folder.tracker_ids()}
    if any(folder.tensorboard.is_dir() for folder in folders):
        found.add("tensorboard")
    return [name for name in TRACKERS if name in found]


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
    path = folder.path.resolve()
    whole = whole_of(RunFolder(path))
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
