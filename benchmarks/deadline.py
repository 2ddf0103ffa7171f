"""What a step deadline costs in accuracy and saves in virtual time: SMoFi on small Fashion-MNIST, on phones.

    python benchmarks/deadline.py
    python benchmarks/deadline.py --seeds 0 --deadlines 0.05 --rounds 10
    python benchmarks/deadline.py --partition "dirichlet(0.2, balance=False)"

Rows go to `runs/deadline.jsonl`, and the table is made from all rows in it: seeds may be run side by side.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from shared.options import parser_for
from shared.rows import markdown

import smofi
from smofi.config import read_config

SETTING = "fashion-mnist"


def run(given: argparse.Namespace, seed: int, deadline: float | None) -> dict[str, Any]:
    """One run: its accuracies, when its rounds ended, and the share of its clients' rounds that were left out."""
    changes = {"seed": seed, "clock": "full", "step_deadline": deadline, "data_folder": given.data_folder}
    if given.partition:
        changes["partition"] = given.partition
    changes["devices"] = "phones(rtt_ms=0)"  # deadlines are about devices that differ; latency is the same for all
    config = read_config(SETTING, changes | ({"rounds": given.rounds} if given.rounds else {}), scale="small")
    history = smofi.train(**config.arguments() | {"executor": "loop"}, method=given.method).history
    return {
        "method": given.method,
        "seed": seed,
        "deadline": deadline,
        "accuracies": [record.accuracy for record in history],
        "ends": [record.virtual_end for record in history],
        "idle": fmean(share for record in history for share in record.idle),
        "left_out": sum(len(record.left_out) for record in history) / sum(len(record.selected) for record in history),
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """A line for each deadline: means over the seeds, ± the standard deviation."""
    rows = list(rows)
    patient = {row["seed"]: row for row in rows if row["deadline"] is None}
    kinds = sorted({row["deadline"] for row in rows}, key=lambda deadline: -(deadline or float("inf")))
    lines = []
    for deadline in kinds:
        own = [row for row in rows if row["deadline"] == deadline and row["seed"] in patient]
        reached = [minutes_to(row, 0.9 * max(patient[row["seed"]]["accuracies"])) for row in own]
        lines.append([
            "none" if deadline is None else f"{deadline:g} s",
            spread([100 * max(row["accuracies"]) for row in own], "%"),
            spread([100 * fmean(row["accuracies"]) for row in own], "%"),
            spread([row["ends"][-1] / 60 for row in own], "min"),
            "not by all" if None in reached else spread([minutes for minutes in reached if minutes is not None], "min"),
            f"{fmean(row['idle'] for row in own):.0%}",
            f"{fmean(row['left_out'] for row in own):.1%}",
            ", ".join(str(row["seed"]) for row in own),
        ])  # fmt: skip
    heads = [
        "deadline",
        "best accuracy",
        "mean over rounds",
        "virtual time",
        "to the target",
        "idle",
        "left out",
        "seeds",
    ]
    return markdown(heads, lines)


def minutes_to(row: dict[str, Any], target: float) -> float | None:
    """Virtual minutes until an accuracy was first reached."""
    ends = zip(row["accuracies"], row["ends"], strict=True)
    return next((end / 60 for accuracy, end in ends if accuracy >= target), None)


def spread(values: list[float], unit: str) -> str:
    """The mean and the standard deviation of some values."""
    return f"{fmean(values):.2f} ± {stdev(values) if len(values) > 1 else 0:.2f} {unit}"


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--deadlines", type=float, nargs="+", default=[0.08, 0.05], help="seconds, beside none at all")
    parser.add_argument("--method", default="smofi(global_momentum=0.3)")
    parser.add_argument("--partition", help="how the data is divided; by default as in the setting")
    parser.add_argument("--data-folder", help="with Fashion-MNIST's files; if not given, where smofi looks for them")
    parser.add_argument("--rounds", type=int, help="by default, as many as the setting has")
    parser.add_argument("--results", type=Path, default=Path("runs/deadline.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for deadline in (None, *given.deadlines):
            row = run(given, seed, deadline)
            with given.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            best, minutes = max(row["accuracies"]), row["ends"][-1] / 60
            print(f"seed {seed}, deadline {deadline}: best {best:.4f}, {minutes:.2f} virtual minutes", flush=True)
    print(table(map(json.loads, given.results.read_text().splitlines())))


if __name__ == "__main__":
    main()
