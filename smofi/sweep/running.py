"""Run a sweep: cells as processes, several at a time, in a folder that says how each ended, and the time left."""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any, TypeAlias

from smofi.config import config_yaml
from smofi.config.settings import COMPUTING
from smofi.engine.metrics import value_of
from smofi.engine.processes.endings import handled
from smofi.errors import InputError, shortened
from smofi.files import read_regular, to_json, write_atomically
from smofi.memory import available_cores
from smofi.runs import FolderLock, RunFolder
from smofi.sweep.store import CELLS, BusyFolder, Cell, Store

# --------------------------------------------------------------------------------------------------------------------
# What happens to cells.

FINISHED, DIVERGED, FAILED, INTERRUPTED, WAITING = "finished", "diverged", "failed", "interrupted", "waiting"


@dataclass(frozen=True)
class Outcome:
    """Say how a cell ended: finished, diverged, failed, interrupted, or still waiting for its turn. `words` say why it
    failed or diverged; `ran` tells that this call computed something for it, in `seconds`."""

    cell: Cell
    state: str
    folder: Path | None = None
    words: str = ""
    ran: bool = False
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Tell that there is nothing left to do; a run that diverged would diverge again."""
        return self.state in (FINISHED, DIVERGED)


@dataclass(frozen=True)
class Started:
    """Tell that a cell's process was started; `resumed` if its folder had a run."""

    cell: Cell
    folder: Path
    resumed: bool


@dataclass(frozen=True)
class Advanced:
    """Tell how many of its rounds a cell has done; the latest took `seconds`, after it the judged metric has `value`,
    on validation data if some is held out."""

    cell: Cell
    done: int
    seconds: float | None = None
    value: float | None = None


@dataclass(frozen=True)
class Ended:
    """Tell that a cell has ended, or had ended before."""

    outcome: Outcome


@dataclass(frozen=True)
class Postponed:
    """Tell that a cell's folder is still written by a process that a killed sweep has left behind: the cell is begun
    when that has ended."""

    cell: Cell
    folder: Path
    process: str


@dataclass(frozen=True)
class Stopping:
    """Tell that a signal has come: cells that are running finish their round, no other is started."""

    signal: int


CellEvent: TypeAlias = Started | Advanced | Ended | Postponed | Stopping
Watch: TypeAlias = Callable[[CellEvent], None]


@dataclass
class Outcomes:
    """Hold the outcomes of all cells, in their order; `signal` is the number of the one that ended the sweep early."""

    all: list[Outcome]
    signal: int | None = None

    @property
    def folders(self) -> list[Path]:
        return [one.folder for one in self.all if one.done and one.folder]


# --------------------------------------------------------------------------------------------------------------------
# One cell as a process of its own: `python -m smofi run`, its events as they come, and what it said when it failed.

PR_SET_PDEATHSIG = 1
LONGEST_WORDS = 2000


class Child:
    """Compute a cell in a process, in a folder that has its run already, or will have it."""

    def __init__(self, cell: Cell, store: Store, folder: RunFolder, workers: int | None) -> None:
        self.cell, self.folder, self.started = cell, folder, time.monotonic()
        self.rest, self.asked = b"", 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `ended`
        if folder.has_run:
            what = ["--resume", str(folder.path), "--rounds", str(cell.config.rounds)]
        else:
            file = store.path / CELLS / f"{folder.path.name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, config_yaml(cell.config.with_absolute_paths()).encode())
            what = [str(file), "--output", str(folder.path)]
        shared = [] if workers is None else ["--workers", str(workers)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "smofi", "run", *what, *shared, "--display", "jsonl"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            start_new_session=True,  # Ctrl-C on the terminal is the sweep's, which hands it on once
            preexec_fn=partial(_end_with, os.getpid()) if sys.platform == "linux" else None,
        )
        assert self.process.stdout
        self.output = self.process.stdout

    def events(self) -> list[dict[str, Any]] | None:
        """Return the events that have come; None once no more will."""
        piece = os.read(self.output.fileno(), 2**16)
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [json.loads(line) for line in lines if line.startswith(b'{"event"')] if piece else None

    def end(self) -> None:
        """Ask it to finish its round, save, and stop; asked again, it stops at once, and then it is made to."""
        self.asked += 1
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if self.asked <= 2 else signal.SIGKILL)

    def ended(self) -> tuple[int, str]:
        """Return its exit code, and what it said about the end, once no more events come."""
        code = self.process.wait()
        self.output.close()
        with self.errors:
            self.errors.seek(0)
            lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return code, "it was ended by SIGKILL, as the system does when memory runs out"
        if code < 0 and not errors:
            return code, f"it was ended by {signal.Signals(-code).name}"
        return code, shortened([f"it ended with exit code {code}", *lines, *errors][-1], LONGEST_WORDS)


def _end_with(parent: int) -> None:
    """Finish the round, save and stop when the sweep is gone, however it ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


# --------------------------------------------------------------------------------------------------------------------
# Cells as processes, several at a time: finished ones are skipped, interrupted ones go on, failures stop no other.

LOOK_EVERY = 0.5
"""Seconds in which a signal is answered."""


def run_cells(cells: Sequence[Cell], store: Store, jobs: int = 1, watch: Watch | None = None) -> Outcomes:
    """Run what is not done yet, `jobs` cells at a time; `watch` sees what happens.

    Ctrl-C, SIGTERM and a closed terminal end the cells that are running after their round, and start no other; a second
    signal ends them at once. The same call goes on from there.
    """
    return _Running(cells, store, jobs, watch or (lambda event: None)).run()


def usual_jobs(cells: Sequence[Cell]) -> int:
    """Return how many cells run at a time unless told otherwise: as many as cores have workers for, one on a GPU."""
    if any(cell.config.device != "cpu" for cell in cells):
        return 1
    workers = max((cell.config.workers or 1 for cell in cells), default=1)
    return max(1, min(available_cores() // workers, len(cells)))


def check_alone() -> None:
    """Refuse to be one of several processes that torchrun has started."""
    if "WORLD_SIZE" in os.environ:
        raise InputError("a sweep starts its own processes: expected it to be started without torchrun")


class _Running:
    """Hold the cells that are running, and the outcomes of others by their keys; `taken` are the folders of both,
    `busy` the folders that other processes were writing."""

    def __init__(self, cells: Sequence[Cell], store: Store, jobs: int, watch: Watch) -> None:
        self.cells, self.store, self.jobs, self.watch = cells, store, jobs, watch
        self.children: list[Child] = []
        self.outcomes: dict[str, Outcome] = {}
        self.taken: set[Path] = set()
        self.busy: dict[str, Path] = {}
        self.signal: int | None = None
        self.selector = selectors.DefaultSelector()

    def run(self) -> Outcomes:
        waiting = [cell for cell in self.cells if not self._is_done(cell)]
        announced = False
        with handled(self._stop), self.selector:
            try:
                while self.children or (waiting and not self.signal):
                    waiting = [cell for cell in waiting if not self._begin(cell)]
                    for ready, _ in self.selector.select(timeout=LOOK_EVERY):
                        self._follow(ready.data)
                    if self.signal is not None and not announced:  # not in its handler: that may interrupt a line
                        announced = True
                        self.watch(Stopping(self.signal))
            finally:  # if anything else goes wrong
                for child in self.children:
                    child.end()
        every = [self.outcomes.get(cell.key) or Outcome(cell, WAITING) for cell in self.cells]
        return Outcomes(every, self.signal)

    def _is_done(self, cell: Cell, *, ran: bool = False, seconds: float = 0.0) -> bool:
        """Tell whether a cell needs no process, or no other: its run has ended, or is damaged."""
        try:
            if (folder := self.store.finished(cell)) is None:
                return False
            self.taken.add(folder.path)
            result = folder.result() or {}
            state, words = (DIVERGED, str(result.get("stopped") or "")) if result.get("diverged") else (FINISHED, "")
            self._end(Outcome(cell, state, folder.path, words, ran, seconds))
        except InputError as error:
            self._end(Outcome(cell, FAILED, words=str(error), ran=ran, seconds=seconds))
        return True

    def _begin(self, cell: Cell) -> bool:
        """Start a cell if there is room; tell whether it need not wait any more. A cell whose folder another process
        writes goes on waiting, and that is told once."""
        if len(self.children) >= self.jobs or self._stopping():
            return False
        if before := self.busy.get(cell.key):
            self.store.look(before)  # it may have gone on, or have ended
        try:
            folder = self.store.folder_for(cell, self.taken)
            if before and self._is_done(cell):
                return True
            resumed = folder.has_run
            child = Child(cell, self.store, folder, cell.config.workers or (1 if self.jobs > 1 else None))
        except BusyFolder as error:
            if before is None:
                self.busy[cell.key] = error.path
                self.watch(Postponed(cell, error.path, error.process))
            return False
        except (InputError, OSError) as error:
            self._end(Outcome(cell, FAILED, words=str(error)))
            return True
        self.taken.add(folder.path)
        self.selector.register(child.output, selectors.EVENT_READ, child)
        self.children.append(child)
        if self._stopping() and not child.asked:  # the signal came while the process was being started
            child.end()
        self.watch(Started(cell, folder.path, resumed))
        return True

    def _follow(self, child: Child) -> None:
        events = child.events()
        for event in events or ():
            if event["event"] == "RunStarted":
                self.watch(Advanced(child.cell, int(event.get("done") or 0)))
            elif event["event"] == "RoundDone":
                config = child.cell.config
                judged = next((one for one in config.metrics if one != "per_client"), "top1")
                # values are chosen by validation data, where some is held out: the test data should not be seen
                value = event.get("validation") if config.validation else value_of(event, judged)
                self.watch(Advanced(child.cell, event["round"], event["seconds"], value))
        if events is None:
            self.selector.unregister(child.output)
            self.children.remove(child)
            (code, words), seconds = child.ended(), time.monotonic() - child.started
            self.store.look(child.folder.path)
            if not self._is_done(child.cell, ran=True, seconds=seconds):  # its exit code alone is not believed
                state = INTERRUPTED if self.signal and code != 2 else FAILED
                where = child.folder.path if child.folder.has_run else None
                self._end(Outcome(child.cell, state, where, words, ran=True, seconds=seconds))

    def _end(self, outcome: Outcome) -> None:
        self.outcomes[outcome.cell.key] = outcome
        self.watch(Ended(outcome))

    def _stopping(self) -> bool:
        return self.signal is not None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        for child in self.children:
            child.end()


# --------------------------------------------------------------------------------------------------------------------
# The folder of a sweep: its runs, the file it was made from, and how each cell ended.

RECORD, COPY, FORMAT, LARGEST = "sweep.json", "sweep.yaml", "smofi-sweep-1", 64 * 2**20


@dataclass(frozen=True)
class Entry:
    """Hold what is known about a cell."""

    title: str
    state: str = WAITING
    folder: str = ""
    words: str = ""
    seconds: float = 0.0


class SweepFolder:
    """Record how cells end, in the folder of a sweep, locked until `close`. `left` are cells that are no longer in the
    file, by their keys.

    It may have runs of other commands already: runs of the sweep's cells are found among them.
    """

    def __init__(self, path: Path, cells: Sequence[Cell], text: str) -> None:
        check_folder(path)
        self.path = path
        self.lock = FolderLock(path)
        try:
            before = _entries(path)
            self.cells = {cell.key: before.get(cell.key, Entry(cell.title)) for cell in cells}
            self.left = {key: entry for key, entry in before.items() if key not in self.cells}
            write_atomically(path / COPY, text.encode())
            self._write()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise InputError(f"{path} cannot be written: {error.strerror}") from None
            raise

    def __call__(self, event: CellEvent) -> None:
        """Record how a cell ended. A run that has grown to more rounds is no longer that of the cell with fewer."""
        if isinstance(event, Ended):
            outcome, key, folder = event.outcome, event.outcome.cell.key, ""
            if path := outcome.folder:
                folder = str(path.relative_to(self.path) if path.is_relative_to(self.path) else path)
            seconds = round(outcome.seconds if outcome.ran else self.cells[key].seconds, 1)
            self.cells[key] = Entry(outcome.cell.title, outcome.state, folder, outcome.words, seconds)
            self.left = {key: entry for key, entry in self.left.items() if not folder or entry.folder != folder}
            self._write()

    def close(self) -> None:
        self.lock.release()

    def _write(self) -> None:
        known = {
            "format": FORMAT,
            "cells": {key: asdict(entry) for key, entry in self.cells.items()},
            "no_longer_in_the_file": {key: asdict(entry) for key, entry in self.left.items()},
        }
        write_atomically(self.path / RECORD, to_json(known, indent=1).encode())


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be that of a sweep."""
    try:
        wrong = ""
        if path.exists() and not path.is_dir():
            wrong = "expected a folder, but it is a file"
        elif RunFolder(path).has_run:
            wrong = "it is the folder of a run; expected one for many"
        elif (path / COPY).exists() and not (path / RECORD).exists():
            wrong = f"it has a {COPY} that is not a sweep's own"
    except (OSError, ValueError) as error:
        wrong = str(getattr(error, "strerror", None) or error)
    if wrong:
        raise InputError(f"output={str(path)!r} is not accepted: {wrong}")
    _entries(path)


def _entries(path: Path) -> dict[str, Entry]:
    record = path / RECORD
    if not record.exists():
        return {}
    content = read_regular(record, LARGEST, "the record of a sweep")
    try:
        known: Any = json.loads(content)
        if known["format"] != FORMAT:
            raise ValueError(f"its format is {known['format']!r}, not {FORMAT!r}")
        found = {**known["no_longer_in_the_file"], **known["cells"]}
        return {str(key): Entry(**entry) for key, entry in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = shortened(" ".join(str(error).split()), 200)
        raise InputError(
            f"{record} is not the record of a sweep ({why}): move it away; finished runs are found without it"
        ) from None


# --------------------------------------------------------------------------------------------------------------------
# How long cells take: from runs that are there, from the rounds that were just done, or from a few steps on copies.

START = 6.0
"""Seconds that a process takes beside its rounds, until that has been seen: loading torch, the data, trying how to
compute."""


@dataclass
class Pace:
    """Follow the cells of a sweep, and tell how long the rest will take. `expected` are the seconds of a round of each
    cell by its key, where they are known.

    >>> from smofi.config import Config
    >>> cells = [Cell(Config(method="fedavg", seed=seed, rounds=10)) for seed in range(4)]
    >>> pace = Pace(cells, jobs=2)
    >>> pace.seconds_left is None
    True
    >>> pace(Advanced(cells[0], 1, seconds=3.0))
    >>> pace.seconds_left                            # (27 + 3 x (6 + 30)) / 2
    67.5
    """

    cells: Sequence[Cell]
    jobs: int = 1
    expected: Mapping[str, float] = field(default_factory=dict)
    measured: dict[str, list[float]] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    starts: list[float] = field(default_factory=list)

    def __call__(self, event: CellEvent) -> None:
        if isinstance(event, Advanced):
            self.done[event.cell.key] = event.done
            if event.seconds is not None:
                self.measured.setdefault(event.cell.key, []).append(event.seconds)
        elif isinstance(event, Ended):
            outcome, key = event.outcome, event.outcome.cell.key
            self.ended.add(key)
            if outcome.ran and outcome.done:
                self.starts.append(max(0.0, outcome.seconds - sum(self.measured.get(key, ()))))

    @property
    def seconds_left(self) -> float | None:
        """Tell the time until all cells are done, if rounds keep taking as long; None if nothing is known about any."""
        left = [cell for cell in self.cells if cell.key not in self.ended]
        own = {key: fmean(seconds[-5:]) for key, seconds in self.measured.items()}
        known = {**self.expected, **own}
        paces = [known[cell.key] for cell in left if cell.key in known] or list(own.values())
        if left and not paces:
            return None
        takes = []
        for cell in left:
            done = self.done.get(cell.key, 0)
            start = 0.0 if done else fmean(self.starts or [START])
            takes.append(start + known.get(cell.key, fmean(paces)) * (cell.config.rounds - done))
        return max([sum(takes) / self.jobs, *takes], default=0.0)


def paces_in(store: Store, cells: Sequence[Cell]) -> dict[str, float]:
    """Return the seconds of a round of each cell, by its key, from runs that differ from it in the seed at most, or
    else in the method too; cells without such a run are left out."""
    known: dict[str, list[float]] = {}
    for run in store.runs.values():
        with suppress(ValueError):  # its records cannot be read
            seconds = [record["seconds"] for record in run.folder.records() if record.get("seconds") is not None]
            for apart in (("seed",), ("seed", "method")) if seconds else ():
                known.setdefault(_without(run.settings, *apart), []).append(fmean(seconds))
    alike = {
        cell.key: known.get(_without(cell.settings, "seed")) or known.get(_without(cell.settings, "seed", "method"))
        for cell in cells
    }
    return {key: fmean(seconds) for key, seconds in alike.items() if seconds}


def timed_paces(cells: Sequence[Cell], workers: Callable[[Cell], int], budget: float = 30.0) -> dict[str, float]:
    """Return the seconds of a round of each cell from a few steps of each method in each setup, on copies, as
    `smofi plan` times them. After `budget` seconds no more are timed: cells that are left take what the others take."""
    from smofi.config.federation import gather
    from smofi.memory import refusing
    from smofi.planning import plan_run

    paces: dict[str, float] = {}
    kinds = {cell.key: _without(cell.settings, "seed") for cell in cells}
    until = time.monotonic() + budget
    for cell in cells:
        if kinds[cell.key] not in paces and time.monotonic() <= until:
            federation = gather(cell.config)
            config = cell.config.divided(federation)
            with refusing(f"a run of {config.model} on {config.data}"):
                plan = plan_run(config, cell.method, federation, workers=workers(cell), deadline=0.5)
            paces[kinds[cell.key]] = plan.seconds_per_round
    return {key: paces[kind] for key, kind in kinds.items() if kind in paces}


def _without(settings: Mapping[str, Any], *names: str) -> str:
    """Write settings as text, but for these and for how a run is computed."""
    return repr([(name, value) for name, value in settings.items() if name not in COMPUTING and name not in names])
