"""What watching costs: rounds with diagnostics and a display beside the same rounds with neither.

Watched and unwatched rounds are timed in turn, in one process on one thread; a watched round is compared with the mean
of the unwatched ones just before and just after it. Beside that ratio stands the share of the watched rounds that was
spent inside diagnostics and display: blind to what they do to caches, but steady on a machine that has other work too.

    python benchmarks/watching.py
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Console
from shared.internals import Diagnostics, one_round, parameters, tell
from shared.options import options
from shared.report import Live
from shared.rows import Sheet
from shared.settings import Setting, settings
from shared.timing import seconds

from smofi import RoundDone, RunStarted

HOOKS = ("__init__", "gradient", "momentum", "end_tick", "end_round", "summary")


class Stopwatch:
    """Adds up the seconds that are spent inside some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time added."""

        @wraps(work)
        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            result = work(*arguments, **named)
            self.seconds += time.perf_counter() - started
            return result

        return timed


def measure(setting: Setting, repetitions: int, sheet: Sheet) -> None:
    """Add the ratios for a method that fuses momentum and for one that does not."""
    sheet.begin(model=setting.name)
    for method in ("smofi", "fedavg"):
        for mode in ("jsonl", "live"):
            with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "events.jsonl", "w") as file:
                shown = io.StringIO() if mode == "live" else file
                console = Console(file=shown, force_terminal=mode == "live", width=100)
                with Live(console, [method], repetitions, mode) as live:
                    ratios, inside = compare(method, live, setting, repetitions)
            sheet.add("ratio to the unwatched round", ratios, method=method, display=mode)
            sheet.add("share of the time inside", inside, ".2%", method=method, display=mode)


def compare(method: str, live: Live, setting: Setting, repetitions: int) -> tuple[list[float], list[float]]:
    """Watched over unwatched, and the share inside. Both train on the same rounds, so they do the same steps."""
    inside = Stopwatch()
    bare, seen = setting.session(method), setting.session(method, callback=inside(live), diagnose=True)
    clients = len(setting.clients)
    live(RunStarted(method, repetitions, clients, clients, clients, parameters(seen)))
    ratios, shares = [], []
    for hook in HOOKS:
        setattr(Diagnostics, hook, inside(getattr(Diagnostics, hook)))
    for repetition in range(-1, repetitions):
        unwatched, diagnosed = (one_round(session, max(0, repetition)) for session in (bare, seen))
        before = seconds(unwatched)
        inside.seconds = 0.0
        # a round as a run does it: the diagnostics go into the record, and the record to the display
        watched = seconds(lambda: tell(seen, RoundDone(diagnosed())))  # noqa: B023
        after = seconds(unwatched)
        if repetition >= 0:  # the first one warms up
            ratios.append(watched / fmean((before, after)))
            shares.append(inside.seconds / watched)
    for hook in HOOKS:
        setattr(Diagnostics, hook, getattr(Diagnostics, hook).__wrapped__)
    return ratios, shares


def main() -> None:
    given = options(__doc__, repetitions=7).parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    for setting in settings():
        measure(setting, given.repetitions, sheet)


if __name__ == "__main__":
    main()
