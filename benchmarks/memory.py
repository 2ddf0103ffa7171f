"""How much memory a process takes that trains for a round, and how much of it `smofi plan` accounts for.

Prints one line of JSON: bytes with nothing but torch and smofi loaded, at the peak, and by the sum. A process has one
peak, so this is a program of its own that other benchmarks start, once for each method.

    python benchmarks/memory.py resnet8 smofi --clients 20
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from form import Row, Sheet, markdown, pick
from measuring import one_round, peak_memory
from settings import SETTINGS

from smofi.data.samples import Samples
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.memory.needs import activation_memory, lasting_memory, round_memory

SIZES = ("idle", "peak", "planned")


def add_memory(sheet: Sheet, setting: str, method: str, **sizes: int) -> None:
    """Add what a process of its own finds."""
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(Path(__file__)), setting, method, *words]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("method")
    parser.add_argument("--clients", type=int, help="of random images or texts")
    parser.add_argument("--steps", type=int, help="of each client")
    parser.add_argument("--batch", type=int, help="samples in a step")
    given = parser.parse_args()
    torch.set_num_threads(1)
    idle = peak_memory()
    sizes: dict[str, Any] = {name: value for name in ("clients", "steps", "batch") if (value := getattr(given, name))}
    session = SETTINGS[given.setting](**sizes).session(given.method)
    one_round(session)()
    peak = peak_memory()
    run = session.run
    cohort, plan = run.cohort, run.planner.plan(0)
    assert isinstance(cohort, SimulatedCohort)
    data: list[Samples | None] = list(cohort.clients)
    sums = [
        *round_memory(cohort, plan),
        activation_memory(cohort, plan),
        *lasting_memory(run.state, session.model, data),
    ]
    found = {"idle": idle, "peak": peak, "planned": sum(item.bytes for item in sums), "clients": len(plan.clients)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
