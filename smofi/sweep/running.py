"""Cells as processes, several at a time: finished ones are skipped, interrupted ones go on, failures stop no other."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from smofi.config import Config
from smofi.cores import available_cores
from smofi.engine.metrics import value_of
from smofi.engine.processes.endings import handled
from smofi.errors import InputError
from smofi.runs import RunFolder
from smofi.sweep.cells import Cell
from smofi.sweep.child import Child
from smofi.sweep.store import BusyFolder, Store

FINISHED, DIVERGED, FAILED, INTERRUPTED, WAITING = "finished", "diverged", "failed", "interrupted", "waiting"
LOOK_EVERY = 0.5
"""Seconds in which a signal is answered."""


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: finished, diverged, failed, interrupted, or still waiting for its turn. `words` say why it
    failed or diverged; `ran` is whether this call computed anything for it, in `seconds`."""

    cell: Cell
    state: str
    folder: Path | None = None
    words: str = ""
    ran: bool = False
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do; a run that diverged would diverge again."""
        return self.state in (FINISHED, DIVERGED)


@dataclass(frozen=True)
class Started:
    """A cell's process was started; `resumed` if its folder had a run."""

    cell: Cell
    folder: Path
    resumed: bool


@dataclass(frozen=True)
class Advanced:
    """A cell has done this many of its rounds; the latest took `seconds`, after it the judged metric has `value`, on
    validation data if some is held out."""

    cell: Cell
    done: int
    seconds: float | None = None
    value: float | None = None


@dataclass(frozen=True)
class Ended:
    """A cell has ended, or had ended before."""

    outcome: Outcome


@dataclass(frozen=True)
class Postponed:
    """A cell's folder is still written by another process, as one that a killed sweep has left behind: the cell is
    begun when that has ended."""

    cell: Cell
    folder: Path
    process: str


@dataclass(frozen=True)
class Stopping:
    """A signal has come: cells that are running finish their round, no other is started."""

    signal: int


CellEvent: TypeAlias = Started | Advanced | Ended | Postponed | Stopping
Watch: TypeAlias = Callable[[CellEvent], None]


@dataclass
class Outcomes:
    """Of all cells, in their order; `signal` is the number of the one that ended the sweep early."""

    all: list[Outcome]
    signal: int | None = None

    @property
    def failed(self) -> list[Outcome]:
        """Those that could not be computed."""
        return [one for one in self.all if one.state == FAILED]

    @property
    def folders(self) -> list[Path]:
        """Those of the cells that are done."""
        return [one.folder for one in self.all if one.done and one.folder]


def run_cells(cells: Sequence[Cell], store: Store, jobs: int = 1, watch: Watch | None = None) -> Outcomes:
    """Run what is not done yet, `jobs` cells at a time; `watch` sees what happens.

    Ctrl-C, SIGTERM and a closed terminal end the cells that are running after their round, and start no other; a second
    signal ends them at once. The same call goes on from there.
    """
    return _Running(cells, store, jobs, watch or (lambda event: None)).run()


def usual_jobs(cells: Sequence[Cell]) -> int:
    """How many cells run at a time unless told otherwise: as many as the cores have workers for, one on a GPU.

    >>> from smofi.config import Config
    >>> usual_jobs([Cell(Config(method="fedavg"))]), usual_jobs([])
    (1, 1)
    """
    if any(cell.config.device != "cpu" for cell in cells):
        return 1
    cores = available_cores()
    workers = max((cell.config.workers or 1 for cell in cells), default=1)
    return max(1, min(cores // workers, len(cells)))


def check_alone() -> None:
    """Refuse to be one of several processes that torchrun has started."""
    if "WORLD_SIZE" in os.environ:
        raise InputError("a sweep starts its own processes: expected it to be started without torchrun")


class _Running:
    """The cells that are waiting, running and done, by their keys; `taken` are the folders of the last two, `busy`
    those that other processes were writing."""

    def __init__(self, cells: Sequence[Cell], store: Store, jobs: int, watch: Watch) -> None:
        self.cells, self.store, self.jobs, self.watch = cells, store, jobs, watch
        self.children: list[Child] = []
        self.outcomes: dict[str, Outcome] = {}
        self.taken: set[Path] = set()
        self.busy: dict[str, Path] = {}
        self.signal: int | None = None
        self.announced = False

    def run(self) -> Outcomes:
        waiting = [cell for cell in self.cells if not self._is_done(cell)]
        with handled(self._stop), selectors.DefaultSelector() as selector:
            try:
                while self.children or (waiting and not self._stopping()):
                    self._start_more(waiting, selector)
                    for ready, _ in selector.select(timeout=LOOK_EVERY):
                        self._follow(ready.data, selector)
                    self._announce()
            finally:  # if anything else goes wrong
                for child in self.children:
                    child.end()
        every = [self.outcomes.get(cell.key) or Outcome(cell, WAITING) for cell in self.cells]
        return Outcomes(every, self.signal)

    def _start_more(self, waiting: list[Cell], selector: selectors.BaseSelector) -> None:
        """Start as many as there is room for; a cell whose folder another process writes goes on waiting."""
        for cell in list(waiting):
            if len(self.children) >= self.jobs or self._stopping():
                return
            if self._is_busy(cell):
                continue
            waiting.remove(cell)
            if child := self._started(cell):
                selector.register(child.output, selectors.EVENT_READ, child)
                self.children.append(child)
                if self._stopping() and not child.asked:  # it came while this process was being started
                    child.end()

    def _is_busy(self, cell: Cell) -> bool:
        """Whether another process writes the folder of a cell; that is told once."""
        if before := self.busy.get(cell.key):
            self.store.look(before)  # it may have gone on, or have ended
        try:
            self.store.folder_for(cell, self.taken)
        except BusyFolder as error:
            if before is None:
                self.busy[cell.key] = error.path
                self.watch(Postponed(cell, error.path, error.process))
            return True
        except InputError:  # told when it is started
            pass
        return False

    def _is_done(self, cell: Cell) -> bool:
        """Whether a cell needs no process: it is finished, or damaged."""
        try:
            if (folder := self.store.finished(cell)) is None:
                return False
            outcome = _ended(cell, folder)
        except InputError as error:
            outcome = Outcome(cell, FAILED, words=str(error))
        if outcome.folder:
            self.taken.add(outcome.folder)
        self._end(outcome)
        return True

    def _started(self, cell: Cell) -> Child | None:
        """The process of a cell; None if something is in its way, or if another process has finished it."""
        if cell.key in self.busy and self._is_done(cell):
            return None
        try:
            folder = self.store.folder_for(cell, self.taken)
            resumed = folder.has_run
            self.taken.add(folder.path)
            workers = cell.config.workers or (1 if self.jobs > 1 else None)
            child = Child(cell, self.store, folder, workers)
        except (InputError, OSError) as error:
            self._end(Outcome(cell, FAILED, words=str(error)))
            return None
        self.watch(Started(cell, folder.path, resumed))
        return child

    def _follow(self, child: Child, selector: selectors.BaseSelector) -> None:
        events = child.events()
        for event in events or ():
            if event["event"] == "RunStarted":
                self.watch(Advanced(child.cell, int(event.get("done") or 0)))
            elif event["event"] == "RoundDone":
                value = value_after(event, child.cell.config)
                self.watch(Advanced(child.cell, event["round"], event["seconds"], value))
        if events is None:
            selector.unregister(child.output)
            self.children.remove(child)
            self._end(self._outcome(child))

    def _outcome(self, child: Child) -> Outcome:
        """How the process of a cell ended, as its folder has it; its exit code alone is not believed."""
        code, words, seconds = child.ended()
        cell, path = child.cell, child.folder.path
        self.store.look(path)
        try:
            if folder := self.store.finished(cell):
                return _ended(cell, folder, ran=True, seconds=seconds)
        except InputError as error:
            words = str(error)
        state = INTERRUPTED if self.signal and code != 2 else FAILED
        return Outcome(cell, state, path if child.folder.has_run else None, words, ran=True, seconds=seconds)

    def _end(self, outcome: Outcome) -> None:
        self.outcomes[outcome.cell.key] = outcome
        self.watch(Ended(outcome))

    def _announce(self) -> None:
        """Tell of a signal once, and not in its handler, which may come in the middle of a line."""
        if self.signal is not None and not self.announced:
            self.announced = True
            self.watch(Stopping(self.signal))

    def _stopping(self) -> bool:
        return self.signal is not None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        for child in self.children:
            child.end()


def value_after(event: Mapping[str, Any], config: Config) -> float | None:
    """The judged metric after a round; on validation data where some is held out, for then values are chosen by it, and
    the test data should not be seen.

    >>> value_after({"accuracy": 0.5, "validation": 0.25}, Config(method="fedavg", validation=0.1))
    0.25
    """
    if config.validation:
        return event.get("validation")
    return value_of(event, next((one for one in config.metrics if one != "per_client"), "top1"))


def _ended(cell: Cell, folder: RunFolder, *, ran: bool = False, seconds: float = 0.0) -> Outcome:
    """The outcome of a cell whose run has ended."""
    result = folder.result() or {}
    diverged = bool(result.get("diverged"))
    words = str(result.get("stopped") or "") if diverged else ""
    return Outcome(cell, DIVERGED if diverged else FINISHED, folder.path, words, ran, seconds)
