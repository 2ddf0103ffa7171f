"""The cells of a sweep, and the runs below a folder, found by their settings, whatever their folders are called."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smofi.config import Config, run_config
from smofi.config.definition import seeds_text
from smofi.config.settings import COMPUTING, SETTINGS
from smofi.data.partitions import PREFIX as SAVED
from smofi.data.partitions import parse
from smofi.errors import InputError, refuse
from smofi.optim import parse_optimizer
from smofi.runs import RunFolder, check_free, writer_of
from smofi.spec import read_calls

# --------------------------------------------------------------------------------------------------------------------
# A cell of a sweep: the settings of one run, with one method and one seed, and what decides its numbers.


LAST_BITS = frozenset({"executor", "threads", "server_threads"})
"""Settings that decide the last bits: they count where an executor is asked for."""

WITHOUT_EFFECT = COMPUTING - LAST_BITS - {"diagnose"} | {"rounds", "seeds"}
"""Settings that do not decide the numbers of a round. Rounds are compared by themselves; a cell has one seed."""

LONGEST_NAME = 120
"""Of a folder, in characters, without the key."""


@dataclass(frozen=True)
class Cell:
    """Describe one run. `label` says in a few words which one it is among others."""

    config: Config
    label: str = ""

    def __post_init__(self) -> None:
        if len(self.config.method) != 1:
            refuse("method", list(self.config.method), "one method in each cell of a sweep")
        if len(self.config.each_seed) != 1:
            refuse("seeds", seeds_text(self.config.each_seed), "one seed in each cell of a sweep")

    @property
    def method(self) -> str:
        return self.config.method[0]

    @property
    def title(self) -> str:
        return self.label or f"{self.method}, seed {self.config.seed}"

    @cached_property
    def key(self) -> str:
        text = json.dumps([self.identity, self.config.rounds], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        words = self.label or f"{self.config.data} {self.method} seed {self.config.seed}"
        return f"{slug(words)}-{self.key}"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the numbers, as far as they are asked for: `auto` leaves open how clients are
        computed, data with owners tells the number of clients, and diagnostics may be there without being asked for."""
        config, left_out = self.config, set[str]()
        if config.executor == ("auto",):
            left_out |= LAST_BITS
        if config.clients is None:
            left_out.add("clients")
        if not config.diagnose:
            left_out.add("diagnose")
        return {name: value for name, value in self.settings.items() if name not in left_out}

    @cached_property
    def settings(self) -> dict[str, Any]:
        return deciding(self.config)

    def is_run_of(self, settings: Mapping[str, Any]) -> bool:
        """Tell whether a run with these `deciding` settings computes the same rounds, maybe more or fewer."""
        return all(name in settings and settings[name] == value for name, value in self.identity.items())


def slug(words: str) -> str:
    """Write words as a part of a folder's name."""
    return re.sub(r"[^\w.=]+", "-", words).strip("-.")[:LONGEST_NAME]


def deciding(config: Config) -> dict[str, Any]:
    """Return every setting that decides the numbers of a round, each written in one way."""
    whole = config.with_absolute_paths()
    return {name: _plainly(name, getattr(whole, name)) for name in SETTINGS if name not in WITHOUT_EFFECT}


def _plainly(name: str, value: Any) -> Any:
    """Write a setting's value in the one way that equal values share."""
    if name == "method":
        calls = [read_calls(name, method, "smofi") for method in value]
        return _numbers([[[call.name, call.args, sorted(call.kwargs)] for call in several] for several in calls])
    if name == "optimizer":
        made = parse_optimizer(value)
        return [type(made).__name__, {key: _numbers(one) for key, one in asdict(made).items()}]
    if name == "partition":
        saved = value.startswith(SAVED)
        return SAVED + str(Path(value.removeprefix(SAVED)).expanduser().absolute()) if saved else str(parse(value))
    return _numbers(value)


def _numbers(value: Any) -> Any:
    """Write whole numbers like others, tuples like lists: 1 and 1.0 are the same number, True is none."""
    if isinstance(value, (list, tuple)):
        return [_numbers(one) for one in value]
    return float(value) if type(value) is int and abs(value) < 2**53 else value


# --------------------------------------------------------------------------------------------------------------------
# The runs below a folder, found by their settings, whatever their folders are called.

CELLS = "cells"
"""The folder with the settings of each cell as a file, which its process is given."""


class BusyFolder(InputError):
    """Say that another process writes the folder of a cell."""

    def __init__(self, path: Path, process: str) -> None:
        super().__init__(f"{path} is being written by another process (pid {process}); wait for it or stop it")
        self.path, self.process = path, process


@dataclass(frozen=True)
class Stored:
    """Hold a run as its folder has it."""

    folder: RunFolder
    config: Config

    @cached_property
    def settings(self) -> dict[str, Any]:
        return deciding(self.config)

    def has_ended(self) -> bool:
        """Tell whether it has done its rounds, or has stopped early; refuse it if what it saved is damaged."""
        ended, done, result = self.folder.ended(), len(self.folder.records()), self.folder.result() or {}
        early = bool(result.get("stopped") or result.get("diverged"))  # or its numbers are not finite
        # a result from before it was resumed does not count
        return ended is not None and ended == done and (done >= self.config.rounds or early)


class Store:
    """Find the runs below a folder. `unreadable` are folders that look like a run's, and why they cannot be read."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.runs: dict[Path, Stored] = {}
        self.unreadable: dict[Path, InputError] = {}
        for where, folders, _ in os.walk(self.path):
            folders.sort()
            if RunFolder(Path(where)).has_run:
                self.look(Path(where))

    def look(self, path: Path) -> None:
        """Read a folder, again if it was read before."""
        self.runs.pop(path, None)
        self.unreadable.pop(path, None)
        folder = RunFolder(path)
        try:
            config = run_config(folder)
            if config is not None and not folder.manifest().runs:  # a comparison's own settings are no run
                self.runs[path] = Stored(folder, config)
        except InputError as error:
            self.unreadable[path] = error

    def finished(self, cell: Cell) -> RunFolder | None:
        """Return the run of a cell that has done all its rounds, or has stopped early; None if there is none.

        A run with more rounds than the cell is another one: its best round may be one that the cell never reaches.
        Refused if the only such run is damaged.
        """
        wrong: InputError | None = None
        for run in self._of(cell):
            if run.config.rounds == cell.config.rounds:
                try:
                    if run.has_ended():
                        return run.folder
                except InputError as error:
                    wrong = wrong or error
        if wrong:
            raise wrong
        return None

    def unfinished(self, cell: Cell, leave: Collection[Path] = ()) -> RunFolder | None:
        """Return the longest run of the same cell to go on with: interrupted, or finished with fewer rounds. Folders in
        `leave` belong to other cells."""
        shorter = [run for run in self._of(cell) if run.folder.path not in leave]
        shorter = [run for run in shorter if run.config.rounds <= cell.config.rounds]
        longest = max(shorter, key=lambda run: (run.config.rounds, len(run.folder.saved_rounds())), default=None)
        return longest.folder if longest else None

    def folder_for(self, cell: Cell, leave: Collection[Path] = ()) -> RunFolder:
        """Return where a cell is, goes on or begins. Refused where something else is, or another process writes."""
        found = self.finished(cell) or self.unfinished(cell, leave)
        if found is None:
            found = RunFolder(self.path / cell.name)
            if found.path in self.unreadable:
                raise self.unreadable[found.path]
            check_free(found.path)
        if writer := writer_of(found.path):
            raise BusyFolder(found.path, writer)
        return found

    def _of(self, cell: Cell) -> list[Stored]:
        return [run for run in self.runs.values() if cell.is_run_of(run.settings)]
