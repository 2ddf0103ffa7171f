"""Follow a run: turn its events into numbers and texts, and never stop the run."""

from __future__ import annotations

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from statistics import fmean
from typing import Any, TypeVar

from smofi.engine.events import Callback, Event, Record, RoundDone, RunEnded, RunStarted, Warned
from smofi.engine.metrics import client_values
from smofi.errors import InputError, TrainingWarning

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

    >>> scalars(Record(1, 0.5, None, 2.0, 0.1, [0], [3], 0.05, "1", {"top1": 0.5, "per_client": {"north": 0.4}}))
    {'accuracy': 0.5, 'train_loss': 2.0, 'learning_rate': 0.05, 'seconds': 0.1, 'metrics/per_client/north': 0.4}
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
    """Import what a tracker needs, or say which extra brings it.

    >>> need("no_such_package", "wandb")
    Traceback (most recent call last):
    smofi.errors.InputError: no_such_package is not installed; it comes with: pip install "smofi[wandb]"
    """
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
    """Return the first line of an error, because some packages write a page."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# --------------------------------------------------------------------------------------------------------------------
# Several callbacks as one.


class Combined:
    """Call each callback with every event, in turn, and close those that are trackers."""

    def __init__(self, callbacks: tuple[Callback, ...]) -> None:
        self.callbacks = callbacks

    def __call__(self, event: Event) -> None:
        """Record an event: the callback of a run."""
        for callback in self.callbacks:
            callback(event)

    def close(self, completed: bool = True) -> None:
        """Close the trackers."""
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
