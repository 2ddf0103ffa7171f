"""What watching costs: rounds with diagnostics and a display beside the same rounds with neither.

Watched and unwatched rounds are timed in turn, in one process on one thread; a watched round is compared with the mean
of the unwatched ones just before and just after it. Beside that ratio stands the share of the watched rounds that was
spent inside diagnostics and display: blind to what they do to caches, but steady on a machine that has other work too.
Both are medians over the repetitions.

    python benchmarks/watching.py
"""

from __future__ import annotations

import io
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from settings import Setting, repetitions_asked_for, seconds, settings
from smofi.engine.diagnostics import Diagnostics

import smofi
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.events import RoundDone, RunStarted
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


def unwatched(session: Session, round: int) -> None:
    session.run.one_round(session.run.planner.plan(round))


def watched(session: Session, round: int) -> None:
    """A round as a run does it: the diagnostics go into the record, and the record to the display."""
    session.run.emit(RoundDone(session.run.one_round(session.run.planner.plan(round))))


def measure(setting: Setting, repetitions: int) -> None:
    """Print the ratios for a method that fuses momentum and for one that does not."""
    print(f"\n{setting.name}")
    for method in ("smofi", "fedavg"):
        for mode in ("jsonl", "live"):
            with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "events.jsonl", "w") as file:
                shown = Console(
                    file=io.StringIO() if mode == "live" else file, force_terminal=mode == "live", width=100
                )
                with Live(shown, [method], repetitions, mode) as live:
                    ratios, inside = compare(method, live, setting, repetitions)
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(
                f"  {method:<7} diagnostics and {mode:<6} {statistics.median(ratios):.3f}x the unwatched ({spread}), "
                f"{statistics.median(inside):.2%} of the time inside",
                flush=True,
            )


def compare(method: str, live: Live, setting: Setting, repetitions: int) -> tuple[list[float], list[float]]:
    """Watched over unwatched, and the share inside. Both train on the same rounds, so they do the same steps."""
    model, clients = setting.model, setting.clients
    bare = smofi.prepare(model, clients, method=method, **setting.arguments)
    seen = smofi.prepare(model, clients, method=method, callback=counted(live), **setting.arguments)
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
    repetitions = repetitions_asked_for(__doc__)
    for setting in settings():
        measure(setting, repetitions)


if __name__ == "__main__":
    main()
