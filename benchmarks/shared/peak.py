"""Memory: the peak of a process that trains for a round, which memory.py measures, as rows and as a table."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.rows import Row, Sheet, markdown, pick

PROGRAM = Path(__file__).resolve().parents[1] / "memory.py"
SIZES = ("idle", "peak", "planned")


def peak_memory() -> int:
    """The most bytes that this process has had; where the system does not say, since its parent's fork."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def add_memory(sheet: Sheet, setting: str, method: str, **sizes: int) -> None:
    """Add what a process of its own finds: a process has one peak."""
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(PROGRAM), setting, method, *words]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(output.splitlines()[-1])
    for size in SIZES:
        sheet.add(f"{size}, MiB", [found[size] / 2**20], ".1f", method=method, clients=found["clients"])


def memory_table(rows: Sequence[Row]) -> str:
    """A line for each model, number of clients and method."""
    lines = []
    for row in pick(rows, "peak, MiB"):
        labels = {key: row[key] for key in ("model", "clients", "method")}
        idle, peak, planned = (pick(rows, f"{size}, MiB", **labels)[0]["values"][0] for size in SIZES)
        lines.append([*labels.values(), f"{planned:.1f}", f"{peak - idle:.0f}", f"{peak:.0f}"])
    headings = ["model", "clients a round", "method", "planned, MiB", "peak above an idle process, MiB", "peak, MiB"]
    return markdown(headings, lines)
