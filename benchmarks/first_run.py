"""The first run over several seeds: the README's table, and its picture of the learning curves.

python benchmarks/first_run.py --seeds 0-4 --picture docs/digits.svg
"""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from shared.options import parser_for
from shared.report import History, details, measure, results_table, save_curves, setting

import smofi
from smofi.config import Config

METHODS = ("fedavg", "fedavgm(momentum=0.3)", "smofi", "smofi(alpha=-1)")


def run(method: str, config: Config) -> History:
    """One run of the first run's settings, client by client in one process."""
    history = smofi.train(**config.arguments(), method=method).history
    return History.of(method, history, config.seed)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = Config(seeds=arguments.seeds, executor="loop")
    runs = []
    for seed in config.each_seed:
        for method in METHODS:
            runs.append(run(method, config.with_seed(seed)))
            print(f"{method} seed {seed}: best {runs[-1].best:.4f}", flush=True)
    rows = measure(runs)
    Console().print(results_table(rows))
    if arguments.picture:
        save_curves(arguments.picture, runs, target=rows[0].target, title=setting(config), below=details(config))


if __name__ == "__main__":
    main()
