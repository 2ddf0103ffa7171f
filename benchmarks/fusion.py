"""What momentum fusion adds: SMoFi beside SFLV1 averaged once a round, the same method without it, in time and memory.

A round of SMoFi is compared with the mean of SFLV1's rounds just before and just after it, in one process on one
thread. Memory is the peak of a process that runs one round of one of them, and the sum that `smofi plan` shows.

    python benchmarks/fusion.py
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import torch
from shared.goals import Goal, at_most
from shared.internals import one_round
from shared.options import options
from shared.peak import add_memory, memory_table
from shared.rows import Row, Sheet, cell, markdown, pick
from shared.settings import SETTINGS
from shared.timing import seconds

SMOFI, WITHOUT = "smofi", 'sflv1("round")'
RATIO = "ratio to sflv1"
MODELS = ("digits-resnet8", "resnet8", "resnet18")
MORE = {"resnet18": {"clients": 10, "steps": 1}}
"""More clients for memory than for time, because their rows take most of it."""


def measure(name: str, repetitions: int | None, sheet: Sheet) -> None:
    """Add how much longer a round takes with fusion, and what memory it takes."""
    setting = SETTINGS[name]()
    fused, plain = (one_round(setting.session(method)) for method in (SMOFI, WITHOUT))
    sheet.begin(model=setting.name)
    ratios: list[float] = []
    plains = [seconds(plain)]
    for _ in range(-1, repetitions or setting.repetitions):
        taken = seconds(fused)
        plains.append(seconds(plain))
        ratios.append(taken / fmean(plains[-2:]))
    # The first of each warms up.
    sheet.add("seconds", plains[2:], method=WITHOUT)
    sheet.add(RATIO, ratios[1:], method=SMOFI)
    for method in (SMOFI, WITHOUT):
        add_memory(sheet, name, method, **MORE.get(name, {}))


def table(rows: Sequence[Row]) -> str:
    """Time, a line for each model."""
    lines = []
    for row in pick(rows, "seconds"):
        model = row["model"]
        lines.append([model, f"{median(row['values']):.3f}", cell(rows, RATIO, model=model)])
    return markdown(["model", "SFLV1(round), s a round", "SMoFi, times that"], lines)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Hardly any time, and no more memory than without."""
    found = [at_most("fusion adds less than 2 % to a round", pick(rows, RATIO), 1.02)]
    for model in dict.fromkeys(row["model"] for row in rows):
        own, other = (
            pick(rows, "peak, MiB", model=model, method=method)[0]["values"][0] for method in (SMOFI, WITHOUT)
        )
        found.append(Goal(f"no more memory with fusion: {model}", f"{own / other - 1:+.1%}", own <= other))
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    for name in given.models:
        measure(name, given.repetitions, sheet)
    print("\n" + table(sheet.rows) + "\n\n" + memory_table(sheet.rows))


if __name__ == "__main__":
    main()
