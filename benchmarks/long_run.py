"""What a round costs late in a long run, beside a round at its beginning.

Runs are started as `smofi run` starts them, in a temporary folder that keeps their rounds and checkpoints. Rounds are
timed in blocks: the first after one that warms up, the one in the middle, and the last. Beside the seconds a round
stand those of the processor, which a machine that has other work too disturbs less.

    python benchmarks/long_run.py
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from shared.options import options, positive
from shared.report import Live
from shared.rows import Sheet

from smofi import Event, RoundDone
from smofi.config import Config
from smofi.experiment import start

CLOCKS = {"seconds a round": time.perf_counter, "CPU seconds a round": time.process_time}
DIGITS: dict[str, Any] = {"partition": "iid", "model": "cnn", "width": 2, "local_epochs": 1, "executor": ("loop",)}
TINY: dict[str, Any] = {"max_train": 32, "max_test": 16, "clients": 4, "participation": 0.5, "batch_size": 8}
MANY: dict[str, Any] = {"max_test": 16, "participation": 1.0, "batch_size": 2, "executor": ("vmap",), "clock": "full"}


class Marks:
    """A callback that knows when each round ended, by every clock."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.ends: dict[str, list[float]] = {name: [] for name in CLOCKS}

    def __call__(self, event: Event) -> None:
        """Note the end of a round."""
        self.live(event)
        if isinstance(event, RoundDone):
            for name, now in CLOCKS.items():
                self.ends[name].append(now())


def blocks(rounds: int, size: int) -> dict[str, tuple[int, int]]:
    """The first, the middle and the last block of rounds, each as the round before it and its last.

    >>> blocks(4000, 100)
    {'first': (100, 200), 'middle': (1950, 2050), 'last': (3900, 4000)}
    """
    middle = (rounds - size) // 2
    return {"first": (size, 2 * size), "middle": (middle, middle + size), "last": (rounds - size, rounds)}


def measure(config: Config, display: str, size: int) -> dict[str, dict[str, float]]:
    """By clock and by block: what a round takes."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nobody:
        console = Console(file=nobody, force_terminal=display == "live", width=100, height=40)
        marks = Marks(Live(console, list(config.method), config.rounds, display))
        (run,) = start(config, Path(folder) / "run", marks)
        with marks.live:
            run.train()
    return {
        name: {
            block: (ends[last - 1] - ends[before - 1]) / (last - before)
            for block, (before, last) in blocks(config.rounds, size).items()
        }
        for name, ends in marks.ends.items()
    }


def compare(name: str, config: Config, display: str, size: int, repetitions: int, sheet: Sheet) -> None:
    """Add a row for each clock and block, and the ratio of the last block to the first."""
    sheet.begin(setting=f"{name}, {config.rounds} rounds", display=display)
    found = [measure(config, display, size) for _ in range(repetitions)]
    for what in CLOCKS:
        for block, (before, last) in blocks(config.rounds, size).items():
            values = [one[what][block] for one in found]
            sheet.add(what, values, ".5f", block=block, rounds=f"{before + 1} to {last}")
        ratios = [one[what]["last"] / one[what]["first"] for one in found]
        sheet.add(f"ratio of {what}", ratios, ".2f", block="last to first")


def main() -> None:
    parser = options(__doc__, repetitions=1)
    parser.add_argument("--rounds", type=positive, default=4000, help="of a tiny run, at least two blocks")
    parser.add_argument("--block", type=positive, default=100, help="rounds of a tiny run's block")
    parser.add_argument("--clients", type=positive, default=500, help="a round of the run with a clock")
    parser.add_argument("--clock-rounds", type=positive, default=300, help="of the run with a clock")
    parser.add_argument("--clock-block", type=positive, default=25, help="rounds of its block")
    given = parser.parse_args()
    sheet = Sheet(given.results)

    def config(settings: Mapping[str, Any], **more: Any) -> Config:
        return Config(**{**DIGITS, "method": ("smofi",), **settings, **more})

    tiny = config(TINY, rounds=given.rounds)
    validated = config({**TINY, "max_train": 48}, rounds=given.rounds, validation=0.25, patience=given.rounds)
    many = config(MANY, rounds=given.clock_rounds, clients=given.clients, checkpoint_every=1)
    settings = [
        ("tiny", tiny, "plain", given.block),
        ("tiny", tiny, "live", given.block),
        ("tiny, validated, with patience", validated, "quiet", given.block),
        (f"{given.clients} clients a round, clock, a checkpoint a round", many, "plain", given.clock_block),
    ]
    for name, one, display, size in settings:
        compare(name, one, display, size, given.repetitions, sheet)


if __name__ == "__main__":
    main()
