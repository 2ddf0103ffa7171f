"""The runs below a folder, found by their settings, whatever their folders are called."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smofi.config import Config, run_config
from smofi.errors import InputError
from smofi.runs import RunFolder, check_free, writer_of
from smofi.sweep.cells import Cell, deciding

CELLS = "cells"
"""The folder with the settings of each cell as a file, which its process is given."""


class BusyFolder(InputError):
    """Another process writes the folder of a cell."""

    def __init__(self, path: Path, process: str) -> None:
        super().__init__(f"{path} is being written by another process (pid {process}); wait for it or stop it")
        self.path, self.process = path, process


@dataclass(frozen=True)
class Stored:
    """A run as its folder has it."""

    folder: RunFolder
    config: Config

    @property
    def path(self) -> Path:
        """That of its folder."""
        return self.folder.path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides its numbers."""
        return deciding(self.config)

    def rounds_done(self) -> int | None:
        """After how many rounds it ended, None while it has not; refused if what it saved is damaged."""
        ended = self.folder.ended()
        done = len(self.folder.records())
        return ended if ended == done else None  # a result from before it was resumed does not count

    def stopped_early(self) -> bool:
        """Whether it ended before its last round: early stopping, or numbers that are not finite."""
        result = self.folder.result() or {}
        return bool(result.get("stopped") or result.get("diverged"))


class Store:
    """The runs below a folder. `unreadable` are folders that look like those of runs, and why they cannot be read.

    >>> Store(Path("no-such-folder")).finished(Cell(Config(method="smofi"))) is None
    True
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.runs: dict[Path, Stored] = {}
        self.unreadable: dict[Path, InputError] = {}
        for path in _run_folders(self.path):
            self.look(path)

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
        """The run of a cell that has done all its rounds, or has stopped early; None if there is none.

        A run with more rounds than the cell is another one: its best round may be one that the cell never reaches.
        Refused if the only such run is damaged.
        """
        wrong: InputError | None = None
        for run in self._of(cell):
            if run.config.rounds != cell.config.rounds:
                continue
            try:
                done = run.rounds_done()
                if done is not None and (done >= cell.config.rounds or run.stopped_early()):
                    return run.folder
            except InputError as error:
                wrong = wrong or error
        if wrong:
            raise wrong
        return None

    def unfinished(self, cell: Cell, leave: Collection[Path] = ()) -> RunFolder | None:
        """A run of the same cell to go on with: interrupted, or finished with fewer rounds; the longest of them. Those
        in `leave` belong to other cells."""
        shorter = [run for run in self._of(cell) if run.path not in leave and run.config.rounds <= cell.config.rounds]
        longest = max(shorter, key=lambda run: (run.config.rounds, len(run.folder.saved_rounds())), default=None)
        return longest.folder if longest else None

    def folder_for(self, cell: Cell, leave: Collection[Path] = ()) -> RunFolder:
        """Where a cell is, goes on or begins. Refused where something else is in the way, or another process writes."""
        found = self.finished(cell) or self.unfinished(cell, leave)
        if found is None:
            found = RunFolder(self.path / cell.name)
            if found.path in self.unreadable:
                raise self.unreadable[found.path]
            check_free(found.path)
        if writer := writer_of(found.path):
            raise BusyFolder(found.path, writer)
        return found

    def _of(self, cell: Cell) -> Iterable[Stored]:
        return (run for run in self.runs.values() if cell.is_run_of(run.settings))


def _run_folders(path: Path) -> list[Path]:
    """All folders below this one, itself included, that have a run's configuration, by name."""
    found = []
    for where, folders, _ in os.walk(path):
        folders.sort()
        if RunFolder(Path(where)).has_run:
            found.append(Path(where))
    return found
