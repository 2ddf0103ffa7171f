"""Run a sweep: cells as processes, several at a time, in a folder that says how each ended, and the time left."""

from __future__ import annotations

import ctypes
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from types import FrameType
from typing import Any, TypeAlias

from smofi.config import Config, config_yaml
from smofi.config.settings import COMPUTING
from smofi.cores import available_cores
from smofi.engine.metrics import value_of
from smofi.engine.processes.endings import handled
from smofi.errors import InputError, refuse, shortened
from smofi.files import read_regular, to_json, write_atomically
from smofi.runs import FolderLock, RunFolder
from smofi.sweep.file import Parameter, Variant
from smofi.sweep.store import CELLS, BusyFolder, Cell, Store, Stored

# --------------------------------------------------------------------------------------------------------------------
# One cell as a process of its own: `python -m smofi run`, its events as they come, and what it said when it failed.


PR_SET_PDEATHSIG = 1
LONGEST_WORDS = 2000


class Child:
    """The process of a cell, in a folder that has its run already, or will have it."""

    def __init__(self, cell: Cell, store: Store, folder: RunFolder, workers: int | None) -> None:
        self.cell, self.folder, self.started = cell, folder, time.monotonic()
        self.rest, self.asked = b"", 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `ended`
        what = _resume(cell, folder) if folder.has_run else _start(cell, store, folder)
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
        """The events that have come; None once no more will."""
        piece = os.read(self.output.fileno(), 2**16)
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [event for line in lines if (event := _event(line))] if piece else None

    def end(self) -> None:
        """Ask it to finish its round, save, and stop; asked again, it stops at once, and then it is made to."""
        self.asked += 1
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if self.asked <= 2 else signal.SIGKILL)

    def ended(self) -> tuple[int, str, float]:
        """Once no more events come: its exit code, what it said about the end, and the seconds that it took."""
        code = self.process.wait()
        self.output.close()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.errors.close()
        return code, _words(code, text), time.monotonic() - self.started


def _start(cell: Cell, store: Store, folder: RunFolder) -> Sequence[str]:
    file = store.path / CELLS / f"{folder.path.name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, config_yaml(cell.config.with_absolute_paths()).encode())
    return [str(file), "--output", str(folder.path)]


def _resume(cell: Cell, folder: RunFolder) -> Sequence[str]:
    return ["--resume", str(folder.path), "--rounds", str(cell.config.rounds)]


def _end_with(parent: int) -> None:
    """Finish the round, save and stop when the sweep is gone, however it ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _words(code: int, text: str) -> str:
    """Why a process ended: its own words, or how it was ended.

    >>> _words(2, "note: a\\nerror: rounds=0 is not accepted\\n"), _words(-9, "")
    ('rounds=0 is not accepted', 'it was ended by SIGKILL, as the system does when memory runs out')
    """
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "it was ended by SIGKILL, as the system does when memory runs out"
    if code < 0 and not errors:
        return f"it was ended by {signal.Signals(-code).name}"
    said = errors[-1] if errors else lines[-1] if lines else f"it ended with exit code {code}"
    return shortened(said, LONGEST_WORDS)


# --------------------------------------------------------------------------------------------------------------------
# Cells as processes, several at a time: finished ones are skipped, interrupted ones go on, failures stop no other.

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


# --------------------------------------------------------------------------------------------------------------------
# The folder of a sweep: its runs, the file it was made from, and how each cell ended.

RECORD, COPY, FORMAT, LARGEST = "sweep.json", "sweep.yaml", "smofi-sweep-1", 64 * 2**20


@dataclass(frozen=True)
class Entry:
    """What is known about a cell."""

    title: str
    state: str = WAITING
    folder: str = ""
    words: str = ""
    seconds: float = 0.0


class SweepFolder:
    """The folder of a sweep, locked until `close`. `left` are cells that are no longer in the file, by their keys.

    It may have runs of other commands already: those of the sweep's cells are found among them.
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
        except OSError as error:
            self.close()
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
        except BaseException:
            self.close()
            raise

    def __call__(self, event: CellEvent) -> None:
        """Record how a cell ended."""
        if isinstance(event, Ended):
            self.note(event.outcome)

    def note(self, outcome: Outcome) -> None:
        """Keep an outcome. A run that has grown to more rounds is no longer that of the cell with fewer."""
        cell, before = outcome.cell, self.cells[outcome.cell.key]
        folder = str(_below(outcome.folder, self.path)) if outcome.folder else ""
        seconds = outcome.seconds if outcome.ran else before.seconds
        self.cells[cell.key] = Entry(cell.title, outcome.state, folder, outcome.words, round(seconds, 1))
        self.left = {key: entry for key, entry in self.left.items() if not folder or entry.folder != folder}
        self._write()

    def close(self) -> None:
        """Let another sweep have the folder."""
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
        if path.exists() and not path.is_dir():
            raise InputError(f"output={str(path)!r} is not accepted: expected a folder, but it is a file")
        if RunFolder(path).has_run:
            raise InputError(f"output={str(path)!r} is not accepted: it is the folder of a run; expected one for many")
        if (path / COPY).exists() and not (path / RECORD).exists():
            raise InputError(f"output={str(path)!r} is not accepted: it has a {COPY} that is not a sweep's own")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"output={str(path)!r} is not accepted: {reason}") from None
    _entries(path)


def _entries(path: Path) -> dict[str, Entry]:
    """All cells that the folder knows of; none in a new one."""
    record = path / RECORD
    if not record.exists():
        return {}
    try:
        known: Any = json.loads(read_regular(record, LARGEST, "the record of a sweep"))
        if known["format"] != FORMAT:
            raise ValueError(f"its format is {known['format']!r}, not {FORMAT!r}")
        found = {**known["no_longer_in_the_file"], **known["cells"]}
        return {str(key): Entry(**entry) for key, entry in found.items()}
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = shortened(" ".join(str(error).split()), 200)
        raise InputError(
            f"{record} is not the record of a sweep ({why}): move it away; finished runs are found without it"
        ) from None


def _below(path: Path, parent: Path) -> Path:
    return path.relative_to(parent) if path.is_relative_to(parent) else path


# --------------------------------------------------------------------------------------------------------------------
# How long cells take: from runs that are there, from the rounds that were just done, or from a few steps on copies.

START = 6.0
"""Seconds that a process takes beside its rounds, until that has been seen: loading torch, the data, trying how to
compute."""

BUDGET = 30.0
"""Seconds in which steps are timed; the cells that are left then take what the others take."""


@dataclass
class Pace:
    """Follows the cells of a sweep, and says how long the rest will take. `expected` are the seconds of a round of each
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
        """Take note of what has happened."""
        if isinstance(event, Started):
            self.done[event.cell.key] = 0
        elif isinstance(event, Advanced):
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
        """Until all cells are done, if rounds keep taking as long; None if nothing is known about any."""
        left = [cell for cell in self.cells if cell.key not in self.ended]
        paces = {cell.key: self._of(cell) for cell in left}
        known = [pace for pace in paces.values() if pace is not None]
        if left and not known:
            return None
        usual = fmean(known) if known else 0.0
        takes = [self._takes(cell, usual if (pace := paces[cell.key]) is None else pace) for cell in left]
        return max([sum(takes) / self.jobs, *takes], default=0.0)

    def _takes(self, cell: Cell, pace: float) -> float:
        start = 0.0 if self.done.get(cell.key) else fmean(self.starts or [START])
        return start + pace * (cell.config.rounds - self.done.get(cell.key, 0))

    def _of(self, cell: Cell) -> float | None:
        """The seconds of a round: as this cell took them, as expected, or as other cells took them."""
        if own := self.measured.get(cell.key):
            return fmean(own[-5:])
        if cell.key in self.expected:
            return self.expected[cell.key]
        others = [fmean(seconds) for seconds in self.measured.values()]
        return fmean(others) if others else None


def paces_in(store: Store, cells: Sequence[Cell]) -> dict[str, float]:
    """The seconds of a round of each cell, by its key, from runs that differ from it in the seed at most, or else in
    the method too; cells without such a run are left out."""
    found: dict[str, float] = {}
    by_setup: dict[str, list[float]] = {}
    by_method: dict[str, list[float]] = {}
    for run in store.runs.values():
        if (pace := _pace(run)) is not None:
            by_method.setdefault(_without(run.settings, "seed"), []).append(pace)
            by_setup.setdefault(_without(run.settings, "seed", "method"), []).append(pace)
    for cell in cells:
        settings = cell.settings
        known = by_method.get(_without(settings, "seed")) or by_setup.get(_without(settings, "seed", "method"))
        if known:
            found[cell.key] = fmean(known)
    return found


def timed_paces(cells: Sequence[Cell], workers: Callable[[Cell], int], budget: float = BUDGET) -> dict[str, float]:
    """The same from a few steps of each method in each setup, on copies, as `smofi plan` times them."""
    from smofi.config.federation import gather
    from smofi.memory import refusing
    from smofi.planning import plan_run

    found: dict[str, float] = {}
    paces: dict[str, float] = {}
    until = time.monotonic() + budget
    for cell in cells:
        alike = _without(cell.settings, "seed")
        if alike not in paces:
            if time.monotonic() > until:
                continue
            federation = gather(cell.config)
            config = cell.config.divided(federation)
            with refusing(f"a run of {config.model} on {config.data}"):
                plan = plan_run(config, cell.method, federation, workers=workers(cell), deadline=0.5)
            paces[alike] = plan.seconds_per_round
        found[cell.key] = paces[alike]
    return found


def _pace(run: Stored) -> float | None:
    """The seconds of a round; None if it has none, or if they cannot be read."""
    try:
        seconds = [record["seconds"] for record in run.folder.records() if record.get("seconds") is not None]
    except ValueError:
        return None
    return fmean(seconds) if seconds else None


def _without(settings: Mapping[str, Any], *names: str) -> str:
    """Settings as text, but for these and for how a run is computed."""
    return repr([(name, value) for name, value in settings.items() if name not in COMPUTING and name not in names])


# --------------------------------------------------------------------------------------------------------------------
# Which values are best: by the accuracy on validation data alone. The test data has no say, and is not looked at.

SHARE = 0.1
"""Of the training data, held out for validation."""


@dataclass(frozen=True)
class Trial:
    """A variant over its seeds, those that are finished: the best validation value of each, and the mean of its rounds.
    `missing` says why some seed has none; such a variant is not chosen."""

    variant: Variant
    best: tuple[float, ...]
    means: tuple[float, ...]
    missing: str = ""

    @property
    def mean(self) -> float:
        """The mean over seeds, by which variants are compared; minus infinity without any."""
        return fmean(self.best) if self.best else -math.inf

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, which a single one does not have."""
        return stdev(self.best) if len(self.best) > 1 else None


def tried(variants: Sequence[Variant], outcomes: Sequence[Outcome]) -> list[Trial]:
    """A trial for each variant, from the runs of its cells."""
    return [_trial(one, [outcome for outcome in outcomes if outcome.cell.method == one.method]) for one in variants]


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the highest mean over seeds, among equals that with the highest mean over rounds; None if no
    variant has all its seeds."""
    whole = [trial for trial in trials if not trial.missing and trial.best]
    return max(whole, key=lambda trial: (trial.mean, fmean(trial.means)), default=None)


def within_spread(best: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """The others that are no further from the best than its standard deviation over seeds."""
    close = [trial for trial in trials if trial is not best and not trial.missing and trial.best]
    return [trial for trial in close if best.spread is not None and best.mean - trial.mean <= best.spread]


def at_the_edge(best: Trial, trials: Sequence[Trial]) -> dict[Parameter, str]:
    """The parameters of which the best trial has the smallest or the largest value of at least three: a better one may
    lie beyond."""
    found = {}
    for parameter, value in best.variant.values.items():
        tried_values = {trial.variant.values[parameter] for trial in trials}
        if len(tried_values) > 2 and value in (least := min(tried_values), max(tried_values)):
            found[parameter] = "smallest" if value == least else "largest"
    return found


def held_out(given: Mapping[str, object], config: Config) -> float:
    """The share of the training data to hold out: as it is set, or a tenth. Refused if it is set to nothing."""
    if "validation" in given and not config.validation:
        refuse("validation", 0, "more than 0, since values are chosen on validation data")
    return config.validation or SHARE


def _trial(variant: Variant, outcomes: Sequence[Outcome]) -> Trial:
    best, means, missing = [], [], ""
    for outcome in outcomes:
        values = _validation(outcome) if outcome.state == FINISHED else []
        if values:
            best.append(max(values))
            means.append(fmean(values))
        elif outcome.state == FINISHED:
            missing = missing or "no validation data"
        else:
            missing = DIVERGED if DIVERGED in (outcome.state, missing) else outcome.state
    return Trial(variant, tuple(best), tuple(means), missing)


def _validation(outcome: Outcome) -> list[float]:
    """The judged metric on the validation data, after each round that was evaluated."""
    assert outcome.folder
    values = [record.get("validation") for record in RunFolder(outcome.folder).records()]
    return [float(value) for value in values if value is not None and math.isfinite(value)]
