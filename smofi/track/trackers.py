"""Follow a run in TensorBoard, Weights & Biases or MLflow: its events as numbers and texts, which never stop it.

A resumed run continues the record that it started.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import socket
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from smofi.engine.events import Callback, Event, Record, RoundDone, RunEnded, RunStarted, Warned
from smofi.engine.metrics import client_values
from smofi.errors import InputError, TrainingWarning, check_choice
from smofi.runs import RunFolder, folders_in, whole_of, write_tracker_id

LONGEST_TEXT = 8000  # what MLflow accepts; enough for anyone to read

Self = TypeVar("Self", bound="Tracker")
Opened = TypeVar("Opened")


class Tracker(ABC):
    """Follow one run, as its callback. It closes when the run ends, by `close`, or at the end of a `with` block.

    A tracker that cannot start is refused. One that fails later says so once, by a TrainingWarning, and goes quiet:
    the run goes on. `failed` is then the sentence; `where` tells the user where to look.
    """

    name: str
    where: str

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        self.config = dict(config or {})
        self.failed: str | None = None
        self.closed = False
        self._round, self._judged = 0, "top1"
        self._texts: dict[str, str] = {}

    @property
    def judged(self) -> str:
        """Name the metric that is judged as it is recorded."""
        return "accuracy" if self._judged == "top1" else f"metrics/{self._judged}"

    @abstractmethod
    def hyperparameters(self, values: dict[str, Any]) -> None:
        """Record what the run is."""

    @abstractmethod
    def numbers(self, round: int, values: dict[str, float]) -> None:
        """Record a round."""

    @abstractmethod
    def text(self, kind: str, message: str, round: int) -> None:
        """Record a sentence: a warning, or why the run stopped."""

    @abstractmethod
    def end(self, completed: bool) -> None:
        """Write what is left and close everything."""

    def __call__(self, event: Event) -> None:
        """Record an event: the callback of a run."""
        if self.closed and isinstance(event, RunStarted):
            self._fail(f"{self.name} is closed and does not record this run; a tracker follows one run")
        if not self.closed and not self.failed:
            self._try(lambda: self._record(event))
        if isinstance(event, RunEnded):
            self.close()

    def close(self, completed: bool = True) -> None:
        """Stop following; a second time does nothing."""
        if not self.closed:
            self.closed = True
            self._try(lambda: self.end(completed and not self.failed))

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(completed=error is None)

    def collected(self, kind: str, message: str, round: int) -> str:
        """Join all sentences of a kind so far, a line each, as many of the latest characters as fit: for trackers that
        have one text for each kind. A run on a full disk has a warning a round."""
        lines = f"{self._texts[kind]}\n" if kind in self._texts else ""
        self._texts[kind] = f"{lines}round {round}: {message}"[-LONGEST_TEXT:]
        return self._texts[kind]

    def _record(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._round, self._judged = event.done, next(iter(event.metrics))
            self.hyperparameters({**self.config, "method": event.method, "parameters": event.parameters})
        elif isinstance(event, RoundDone):
            self._round = event.record.round
            self.numbers(self._round, scalars(event.record))
        elif isinstance(event, Warned):
            self.text("warnings", event.message, self._round)
        elif isinstance(event, RunEnded) and event.stopped:
            self.text("stopped", event.stopped, self._round)

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(f"{self.name} failed and records no more of this run, which goes on: {_sentence(error)}")

    def _fail(self, message: str) -> None:
        if not self.failed:
            self.failed = message
            warnings.warn(message, TrainingWarning, stacklevel=4)


def scalars(record: Record) -> dict[str, float]:
    """Return the numbers of a round by name, those of clients by the clients' names, without what was not measured.

    With a clock: hours since the run started, bytes of all clients together in the round, and their mean idle share.
    """
    names = ("accuracy", "loss", "train_loss", "validation", "learning_rate", "seconds")
    values: dict[str, Any] = {name: getattr(record, name) for name in names}
    if record.virtual_end is not None:
        values["virtual_hours"] = record.virtual_end / 3600
        values |= {"bytes_up": sum(record.bytes_up), "bytes_down": sum(record.bytes_down)}
        values["idle"] = fmean(record.idle or [0.0])
    for name, value in record.metrics.items():
        clients = {f"metrics/{name}/{client.replace('/', '_')}": one for client, one in client_values(value).items()}
        values |= clients or ({} if name == "top1" else {f"metrics/{name}": value})
    values |= {f"diagnostics/{name}": value for name, value in record.diagnostics.items()}
    return {name: float(value) for name, value in values.items() if isinstance(value, Real)}


def need(module: str, extra: str) -> Any:
    """Import what a tracker needs, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise InputError(f'{package} is not installed; it comes with: pip install "smofi[{extra}]"') from None


def started(name: str, start: Callable[[], Opened]) -> Opened:
    """Return what `start` returns; before the run begins, any failure is an error that the user can correct."""
    try:
        return start()
    except Exception as error:
        raise InputError(f"{name} cannot be started: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# --------------------------------------------------------------------------------------------------------------------
# The three packages.


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
        file = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = started(self.name, lambda: open(made(Path(folder)) / file, "xb"))  # noqa: SIM115
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


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
        self.id: str = started(self.name, lambda: self._begin(experiment, run_name, id))
        self.where: str = self.client.tracking_uri

    def hyperparameters(self, values: dict[str, Any]) -> None:
        if self._new:  # MLflow never changes a parameter
            parameters = [self._entities.Param(name, str(v)[:LONGEST_PARAMETER]) for name, v in values.items()]
            self.client.log_batch(self.id, params=parameters)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        # clients may have names with characters that MLflow does not take
        accepted = [(re.sub(r"[^\w./ -]", "_", name)[:LONGEST_NAME], value) for name, value in values.items()]
        metrics = [self._entities.Metric(name, value, now, round) for name, value in accepted]
        for start in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + MOST_METRICS])

    def text(self, kind: str, message: str, round: int) -> None:
        self.client.set_tag(self.id, kind, self.collected(kind, message, round))

    def end(self, completed: bool) -> None:
        self.client.set_terminated(self.id, status="FINISHED" if completed else "FAILED")

    def _begin(self, experiment: str, run_name: str | None, id: str | None) -> str:
        if id is not None:
            self.client.set_terminated(id, status="RUNNING")
            return id
        found = self.client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self.client.create_experiment(experiment)
        return str(self.client.create_run(number, run_name=run_name).info.run_id)


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


def _wandb(folder: RunFolder, config: Mapping[str, Any], run_name: str) -> Tracker:
    recorded = folder.tracker_ids().get("wandb")
    resumed: dict[str, Any] = {"id": recorded, "resume": "allow"} if recorded else {}
    run = WandB(config=config, name=run_name, dir=str(made(folder.path)), **resumed)
    write_tracker_id(folder, "wandb", run.id)
    return run


def _mlflow(folder: RunFolder, config: Mapping[str, Any], run_name: str) -> Tracker:
    path = made(folder.path).resolve()
    whole = whole_of(RunFolder(path))
    beside = f"sqlite:///{(path.parent if whole == path else whole) / 'mlflow.db'}"
    uri = os.environ.get("MLFLOW_TRACKING_URI") or beside
    run = MLflow(tracking_uri=uri, config=config, run_name=run_name, id=folder.tracker_ids().get("mlflow"))
    write_tracker_id(folder, "mlflow", run.id)
    return run


TRACKERS: dict[str, Callable[[RunFolder, Mapping[str, Any], str], Tracker]] = {
    "tensorboard": lambda folder, config, run_name: TensorBoard(folder.tensorboard, config),
    "wandb": _wandb,
    "mlflow": _mlflow,
}


# --------------------------------------------------------------------------------------------------------------------
# Several callbacks as one.


class Combined:
    """Call each callback with every event, in turn, and close those that are trackers."""

    def __init__(self, callbacks: tuple[Callback, ...]) -> None:
        self.callbacks = callbacks

    def __call__(self, event: Event) -> None:
        for callback in self.callbacks:
            callback(event)

    def close(self, completed: bool = True) -> None:
        for callback in self.callbacks:
            if isinstance(callback, (Tracker, Combined)):
                callback.close(completed)

    def __enter__(self) -> Combined:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(completed=error is None)


def combine(*callbacks: Callback) -> Combined:
    """Make one callback that calls each of these, in this order.

    >>> from smofi.engine.events import Warned
    >>> seen = []
    >>> combine(seen.append, lambda event: seen.append(event.message))(Warned("careful"))
    >>> seen
    [Warned(message='careful'), 'careful']
    """
    return Combined(callbacks)
