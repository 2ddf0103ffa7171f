"""The folder of a sweep: its runs, the file it was made from, and how each cell ended.

DIR/sweep.yaml     the file as it was last given
DIR/sweep.json     every cell: its folder, its state, why it failed, how long it took; kept when it leaves the file
DIR/cells/         the settings that each cell's process was given
DIR/<cell>/        a run folder each
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smofi.errors import InputError, shortened
from smofi.files import read_regular, to_json, write_atomically
from smofi.runs import FolderLock, RunFolder
from smofi.sweep.cells import Cell
from smofi.sweep.running import WAITING, CellEvent, Ended, Outcome

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
