"""One cell as a process of its own: `python -m smofi run`, its events as they come, and what it said when it failed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from smofi.config import config_yaml
from smofi.errors import shortened
from smofi.files import write_atomically
from smofi.runs import RunFolder
from smofi.sweep.cells import Cell
from smofi.sweep.store import CELLS, Store

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
