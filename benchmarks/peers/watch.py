"""A contestant run from outside: how long it takes from start to end, and how much memory its processes take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EVERY = 0.05
"""Seconds between two looks at memory, to which comes what a look takes."""


def run(command: Sequence[str], environment: Mapping[str, str], *, memory: bool, timeout: float) -> dict[str, Any]:
    """Its own last line of JSON, with `total`, `first_round` (both from the start, in seconds) and `memory` (bytes).

    Memory is the peak of the sum, over the process and all its descendants, of the proportional set size: pages shared
    by n processes count 1/n in each. A look costs milliseconds per process, so a run is either timed or looked at.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.time()
        child = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=errors, text=True, start_new_session=True
        )
        peak = [0]
        watching = threading.Thread(target=_watch, args=(child, peak), daemon=True)
        if memory:
            watching.start()
        try:
            child.wait(timeout)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        total = time.time() - started
        if memory:
            watching.join()
        for file in (output, errors):
            file.seek(0)
        lines = [line for line in output.read().splitlines() if line.startswith("{")]
        if child.returncode or not lines:
            raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}:\n{errors.read()[-4000:]}")
    said: dict[str, Any] = json.loads(lines[-1])
    first = said.pop("first_round_at") - started
    return {**said, "total": total, "first_round": first, "memory": peak[0] if memory else None}


def _watch(child: subprocess.Popen[str], peak: list[int]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], sum(map(proportional, family(child.pid))))
        time.sleep(EVERY)


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # pid (name) state parent ..., and a name may contain anything
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # gone by now
                continue
    found = [root]
    for one in found:
        found += [process for process, parent in parents.items() if parent == one]
    return found


def proportional(process: int) -> int:
    """The proportional set size of a process in bytes, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
