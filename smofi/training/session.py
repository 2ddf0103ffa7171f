"""A run that is ready to train, what it gives back, and how Ctrl-C ends it after the round."""

from __future__ import annotations

import copy
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType

from torch import nn

from smofi.engine.cpu.threads import in_threads
from smofi.engine.events import Event, Record, TickDone
from smofi.engine.metrics import USUAL
from smofi.engine.processes.endings import in_turn
from smofi.engine.run import Run
from smofi.errors import TrainingWarning
from smofi.flat import Layout

# --------------------------------------------------------------------------------------------------------------------
# Ctrl-C in Python: the run ends after the current round, and what there is comes back.


@contextmanager
def finishing_the_round(run: Run) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the current round, and a second one raise KeyboardInterrupt at once.

    Only in the main thread, where Python hands out signals, and only where Ctrl-C would raise KeyboardInterrupt: what
    a program, or the `smofi` command, has decided about it stays as it is.
    """
    own_thread = threading.current_thread() is not threading.main_thread()
    if own_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    run.interrupted = run.cut_short = False  # an earlier one is no reason to stop again
    callback, announced = run.emit, False

    def interrupt(number: int, frame: FrameType | None) -> None:
        run.interrupt()

    def announce(event: Event) -> None:
        nonlocal announced
        callback(event)
        if run.interrupted and not announced and isinstance(event, TickDone):
            announced = True
            with suppress(TrainingWarning):  # where warnings are errors, this one would lose the round
                run.warn(f"interrupted: round {event.round} is finished first; interrupt again to stop at once")

    run.emit = announce
    leads = run.workers.rank == 0  # which tells further workers when to stop
    try:
        signal.signal(signal.SIGINT, in_turn(interrupt, signal.default_int_handler if leads else interrupt))
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run.emit = callback


# --------------------------------------------------------------------------------------------------------------------
# A run that shows how it goes: the display of `smofi run`, for Python.


@contextmanager
def shown(run: Run) -> Iterator[None]:
    """Send the run's events to a display as well as to its callback."""
    # The report stands above this room and is loaded only here, when it is asked for: pyproject.toml has the exception.
    from smofi.report.live import display

    callback = run.emit
    with warnings.catch_warnings(), display(run.planner.method.name, run.rounds) as live:
        warnings.simplefilter("ignore", TrainingWarning)  # the display shows the event that comes with it

        def both(event: Event) -> None:
            live(event)
            callback(event)

        run.emit = both
        try:
            yield
        finally:
            run.emit = callback


# --------------------------------------------------------------------------------------------------------------------
# A run that is ready to train, and what it gives back.


@dataclass(frozen=True)
class Result:
    """What a run gives back: the trained `model`, in eval mode, and its `history`, a `smofi.Record` per round.

    `stopped` says why the run ended early, and is None if it ran to the end; `diverged` and `interrupted` (by Ctrl-C)
    tell two such reasons apart from having reached what was asked for. `metrics` says what people call each metric, the
    one that is judged first.

    >>> Result(nn.Linear(1, 1), [], "interrupted after round 0 of 5", interrupted=True)
    Result(0 rounds, interrupted after round 0 of 5)
    """

    model: nn.Module
    history: list[Record]
    stopped: str | None = None
    diverged: bool = False
    interrupted: bool = False
    metrics: Mapping[str, str] = field(default_factory=USUAL.copy)

    def __repr__(self) -> str:
        done = f"{len(self.history)} round{'s' * (len(self.history) != 1)}"
        measured = [
            f"{heading} {value:.4g} after round {record.round}"
            for record in [record for record in self.history if record.evaluated][-1:]
            for name, heading in self.metrics.items()
            if (value := record.value(name)) is not None
        ]
        return f"Result({', '.join([done, *measured[:1], *([self.stopped] if self.stopped else [])])})"


@dataclass(frozen=True)
class Session:
    """A run that is checked and ready: whatever could be refused has been refused."""

    model: nn.Module
    layout: Layout
    run: Run
    threads: int = 1
    progress: bool = False

    def __repr__(self) -> str:
        run, clients = self.run, len(self.run.planner.sizes)
        about = f"{run.planner.method}, {clients} client{'s' * (clients != 1)}"
        return f"Session({about}, {len(run.history)} of {run.rounds} rounds done)"

    @property
    def executor(self) -> str:
        """Return how clients are computed, as it was decided: the `executor` that repeats it on any machine."""
        return self.run.simulation.execution.executor

    def train(self) -> Result:
        """Train all rounds, one after the other; after Ctrl-C, those that are left."""
        display = shown(self.run) if self.progress and self.run.workers.rank == 0 else nullcontext()
        with in_threads(self.threads), finishing_the_round(self.run), display:
            self.run.train()
        return self.result()

    def result(self) -> Result:
        """Return the result so far."""
        run, trained = self.run, copy.deepcopy(self.model).eval()
        self.layout.unpack(trained, run.state.weights, run.state.statistics)
        return Result(trained, list(run.history), run.stopped, run.diverged, run.cut_short, run.evaluator.headings)
