"""Cells as real processes: skipped, resumed, failed, interrupted; and how long the rest takes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from smofi.runs import FolderLock
from smofi.sweep.running import (
    START,
    Advanced,
    CellEvent,
    Ended,
    Outcome,
    Pace,
    Postponed,
    Started,
    run_cells,
)
from smofi.sweep.store import Store
from support.cells import cell, ran, tiny

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are not the same there")


def test_a_cell_that_a_killed_sweep_still_writes_is_waited_for(tmp_path: Path) -> None:
    """Its process ends after the round, and the cell goes on; here it has finished, and nothing is left to do."""
    path = ran(tmp_path / "busy", tiny(), [], ended=False)
    lock = FolderLock(path)
    seen: list[CellEvent] = []

    def watch(event: CellEvent) -> None:
        seen.append(event)
        if isinstance(event, Postponed):
            lock.release()
            shutil.rmtree(path)
            ran(path, tiny(), [0.5])

    (outcome,) = run_cells([cell()], Store(tmp_path), watch=watch).all
    assert (outcome.state, outcome.folder, outcome.ran) == ("finished", path, False)
    assert [type(event) for event in seen] == [Postponed, Ended]


def test_the_time_left_follows_what_happens() -> None:
    cells = [cell(seed=seed, rounds=10) for seed in range(3)]
    pace = Pace(cells, jobs=2, expected={cells[0].key: 2.0})
    assert pace.seconds_left == 3 * (START + 20) / 2
    pace(Started(cells[0], Path(), resumed=False))
    pace(Advanced(cells[0], 5))  # it goes on from there
    pace(Advanced(cells[0], 6, seconds=4.0))
    assert pace.seconds_left == (16 + 2 * (START + 40)) / 2
    pace(Ended(Outcome(cells[0], "finished", ran=True, seconds=12.0)))  # of which 8 before its first round
    assert pace.seconds_left == 8 + 40
    pace(Ended(Outcome(cells[1], "failed")))
    pace(Ended(Outcome(cells[2], "finished")))
    assert pace.seconds_left == 0
    assert Pace(cells[:1], 4, {cells[0].key: 1.0}).seconds_left == START + 10  # no faster than the longest cell
