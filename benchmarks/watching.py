"""What watching costs: rounds with diagnostics and a display beside the same rounds with neither.

Watched and unwatched rounds are timed in turn, in one process on one thread; a watched round is compared with the mean
of the unwatched ones just before and just after it. Beside that ratio stands the share of the watched rounds that was
spent inside diagnostics and display: blind to what they do to caches, but steady on a machine that has other work too.
Both are medians over the repetitions.

    python benchmarks/watching.py
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from overhead import digits, images
from rich.console import Console
from torch import Tensor, nn

import smofi
from smofi import models
from smofi.engine.diagnostics import Diagnostics
from smofi.engine.events import RoundDone, RunStarted
from smofi.engine.simulated import SimulatedCohort
from smofi.report.live import Live
from smofi.training import Session

SPENT = [0.0]  # seconds inside diagnostics and display


def counted(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, its time added to SPENT."""

    def timed(*arguments: Any) -> Any:
        started = time.perf_counter()
        result = work(*arguments)
        SPENT[0] += time.perf_counter() - started
        return result

    return timed


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def unwatched(session: Session, round: int) -> None:
    session.run.one_round(session.run.planner.plan(round))


def watched(session: Session, round: int) -> None:
    """A round as a run does it: the diagnostics go into the record, and the record to the display."""
    session.run.emit(RoundDone(session.run.one_round(session.run.planner.plan(round))))


def measure(
    name: str, clients: list[tuple[Tensor, Tensor]], model: nn.Sequential, repetitions: int, **settings: Any
) -> None:
    """Print the ratios for a method that fuses momentum and for one that does not."""
    print(f"\n{name}")
    for method in ("smofi", "fedavg"):
        for mode in ("jsonl", "live"):
            with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "events.jsonl", "w") as file:
                shown = Console(
                    file=io.StringIO() if mode == "live" else file, force_terminal=mode == "live", width=100
                )
                with Live(shown, [method], repetitions, mode) as live:
                    ratios, inside = compare(method, live, clients, model, repetitions, settings)
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(
                f"  {method:<7} diagnostics and {mode:<6} {statistics.median(ratios):.3f}x the unwatched ({spread}), "
                f"{statistics.median(inside):.2%} of the time inside",
                flush=True,
            )


def compare(
    method: str,
    live: Live,
    clients: list[tuple[Tensor, Tensor]],
    model: nn.Sequential,
    repetitions: int,
    settings: dict[str, Any],
) -> tuple[list[float], list[float]]:
    """Watched over unwatched, and the share inside. Both train on the same rounds, so they do the same steps."""
    bare = smofi.prepare(model, clients, method=method, **settings)
    seen = smofi.prepare(model, clients, method=method, callback=counted(live), **settings)
    diagnostics = Diagnostics()
    for hook in ("begin", "gradient", "momentum", "end_tick", "end_round", "summary"):
        setattr(diagnostics, hook, counted(getattr(diagnostics, hook)))
    assert isinstance(seen.run.cohort, SimulatedCohort)
    seen.run.cohort.diagnostics = diagnostics
    live(RunStarted(method, repetitions, len(clients), len(clients), len(clients), len(seen.run.state.weights)))
    ratios, inside = [], []
    for repetition in range(-1, repetitions):
        round = max(0, repetition)
        before = seconds(partial(unwatched, bare, round))
        SPENT[0] = 0.0
        between = seconds(partial(watched, seen, round))
        after = seconds(partial(unwatched, bare, round))
        if repetition >= 0:  # the first one warms up
            ratios.append(between / statistics.mean((before, after)))
            inside.append(SPENT[0] / between)
    return ratios, inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread of {os.cpu_count()}")
    wide = models.build("resnet8", seed=0, input_shape=(3, 32, 32), classes=10, width=16)
    measure(
        "resnet8 width 16, 32x32, batch 32",
        images(clients=10, samples=64),
        wide,
        repetitions,
        participation=1.0,
        local_epochs=1,
        batch_size=32,
        cut=1,
    )
    slim = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=8)
    measure(
        "digits, resnet8 width 8, 8x8, batch 8",
        digits(),
        slim,
        repetitions,
        participation=0.2,
        local_epochs=5,
        batch_size=8,
        cut=1,
    )


if __name__ == "__main__":
    main()
