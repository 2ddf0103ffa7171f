"""How long cells take: from runs that are there, from the rounds that were just done, or from a few steps on copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from smofi.settings import COMPUTING
from smofi.sweep.cells import Cell
from smofi.sweep.running import Advanced, CellEvent, Ended, Started
from smofi.sweep.store import Store, Stored

START = 6.0
"""Seconds that a process takes beside its rounds, until that has been seen: loading torch, the data, trying how to
compute."""

BUDGET = 30.0
"""Seconds in which steps are timed; the cells that are left then take what the others take."""


@dataclass
class Pace:
    """Follows the cells of a sweep, and says how long the rest will take. `expected` are the seconds of a round of each
    cell by its key, where they are known.

    >>> from smofi.config import Config
    >>> cells = [Cell(Config(method="fedavg", seed=seed, rounds=10)) for seed in range(4)]
    >>> pace = Pace(cells, jobs=2)
    >>> pace.seconds_left is None
    True
    >>> pace(Advanced(cells[0], 1, seconds=3.0))
    >>> pace.seconds_left                            # (27 + 3 x (6 + 30)) / 2
    67.5
    """

    cells: Sequence[Cell]
    jobs: int = 1
    expected: Mapping[str, float] = field(default_factory=dict)
    measured: dict[str, list[float]] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    starts: list[float] = field(default_factory=list)

    def __call__(self, event: CellEvent) -> None:
        """Take note of what has happened."""
        if isinstance(event, Started):
            self.done[event.cell.key] = 0
        elif isinstance(event, Advanced):
            self.done[event.cell.key] = event.done
            if event.seconds is not None:
                self.measured.setdefault(event.cell.key, []).append(event.seconds)
        elif isinstance(event, Ended):
            outcome, key = event.outcome, event.outcome.cell.key
            self.ended.add(key)
            if outcome.ran and outcome.done:
                self.starts.append(max(0.0, outcome.seconds - sum(self.measured.get(key, ()))))

    @property
    def seconds_left(self) -> float | None:
        """Until all cells are done, if rounds keep taking as long; None if nothing is known about any."""
        left = [cell for cell in self.cells if cell.key not in self.ended]
        paces = {cell.key: self._of(cell) for cell in left}
        known = [pace for pace in paces.values() if pace is not None]
        if left and not known:
            return None
        usual = fmean(known) if known else 0.0
        takes = [self._takes(cell, usual if (pace := paces[cell.key]) is None else pace) for cell in left]
        return max([sum(takes) / self.jobs, *takes], default=0.0)

    def _takes(self, cell: Cell, pace: float) -> float:
        start = 0.0 if self.done.get(cell.key) else fmean(self.starts or [START])
        return start + pace * (cell.config.rounds - self.done.get(cell.key, 0))

    def _of(self, cell: Cell) -> float | None:
        """The seconds of a round: as this cell took them, as expected, or as other cells took them."""
        if own := self.measured.get(cell.key):
            return fmean(own[-5:])
        if cell.key in self.expected:
            return self.expected[cell.key]
        others = [fmean(seconds) for seconds in self.measured.values()]
        return fmean(others) if others else None


def paces_in(store: Store, cells: Sequence[Cell]) -> dict[str, float]:
    """The seconds of a round of each cell, by its key, from runs that differ from it in the seed at most, or else in
    the method too; cells without such a run are left out."""
    found: dict[str, float] = {}
    by_setup: dict[str, list[float]] = {}
    by_method: dict[str, list[float]] = {}
    for run in store.runs.values():
        if (pace := _pace(run)) is not None:
            by_method.setdefault(_without(run.settings, "seed"), []).append(pace)
            by_setup.setdefault(_without(run.settings, "seed", "method"), []).append(pace)
    for cell in cells:
        settings = cell.settings
        known = by_method.get(_without(settings, "seed")) or by_setup.get(_without(settings, "seed", "method"))
        if known:
            found[cell.key] = fmean(known)
    return found


def timed_paces(cells: Sequence[Cell], workers: Callable[[Cell], int], budget: float = BUDGET) -> dict[str, float]:
    """The same from a few steps of each method in each setup, on copies, as `smofi plan` times them."""
    from smofi.config.federation import gather
    from smofi.memory import refusing
    from smofi.planning import plan_run

    found: dict[str, float] = {}
    paces: dict[str, float] = {}
    until = time.monotonic() + budget
    for cell in cells:
        alike = _without(cell.settings, "seed")
        if alike not in paces:
            if time.monotonic() > until:
                continue
            federation = gather(cell.config)
            config = cell.config.divided(federation)
            with refusing(f"a run of {config.model} on {config.data}"):
                plan = plan_run(config, cell.method, federation, workers=workers(cell), deadline=0.5)
            paces[alike] = plan.seconds_per_round
        found[cell.key] = paces[alike]
    return found


def _pace(run: Stored) -> float | None:
    """The seconds of a round; None if it has none, or if they cannot be read."""
    try:
        seconds = [record["seconds"] for record in run.folder.records() if record.get("seconds") is not None]
    except ValueError:
        return None
    return fmean(seconds) if seconds else None


def _without(settings: Mapping[str, Any], *names: str) -> str:
    """Settings as text, but for these and for how a run is computed."""
    return repr([(name, value) for name, value in settings.items() if name not in COMPUTING and name not in names])
