"""The first run over several seeds: the README's table, and its picture of the mean learning curves.

python benchmarks/first_run.py --seeds 5 --picture docs/digits.svg
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from shared.options import parser_for
from shared.report import History, measure, results_table, save_curves, setting

import smofi
from smofi.config import Config

METHODS = ("fedavg", "fedavgm(momentum=0.3)", "smofi", "smofi(alpha=-1)")


def run(method: str, seed: int) -> History:
    """One run of the first run's settings, client by client in one process."""
    history = smofi.train(**Config(seed=seed, executor="loop").arguments(), method=method).history
    return History.of(method, history, seed)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for method in METHODS:
        for seed in range(arguments.seeds):
            runs.append(run(method, seed))
            print(f"{method} seed {seed}: best {runs[-1].best:.4f}", flush=True)
    rows = measure(runs)
    Console().print(results_table(rows))
    for method in METHODS:
        targets = {one.seed: 0.9 * max(one.measured) for one in runs if one.name == "fedavg"}
        reached = [one.rounds_to(targets[one.seed]) for one in runs if one.name == method]
        print(f"{method}: rounds to the target, seed by seed: {reached}")
    if arguments.picture:
        curves = [
            History(
                method,
                [fmean(point) for point in zip(*(one.measured for one in runs if one.name == method), strict=True)],
            )
            for method in METHODS
        ]
        below = f"cut {Config().cut}, mean of seeds 0 to {arguments.seeds - 1}"
        save_curves(arguments.picture, curves, target=rows[0].target, title=setting(Config()), below=below)


if __name__ == "__main__":
    main()
