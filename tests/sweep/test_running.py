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
    paces_in,
    run_cells,
    timed_paces,
)
from smofi.sweep.store import Store
from support.cells import cell, ran, tiny

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are not the same there")


@pytest.mark.slow
def test_cells_run_once_and_failures_stop_no_other(tmp_path: Path) -> None:
    """One is there already, one is new, one cannot begin because something is in its place, one fails as it begins."""
    there, new, blocked = cell(seed=0), cell(seed=1), cell(seed=2)
    failing = cell(data="python:no_such_module:load")
    ran(tmp_path / "before", tiny(seed=0))
    (tmp_path / blocked.name).mkdir()
    (tmp_path / blocked.name / "letter.txt").write_text("mine")
    seen: list[CellEvent] = []
    outcomes = run_cells([there, blocked, failing, new], Store(tmp_path), jobs=2, watch=seen.append)
    assert [one.state for one in outcomes.all] == ["finished", "failed", "failed", "finished"]
    assert [one.ran for one in outcomes.all] == [False, False, True, True]
    assert "letter.txt" in outcomes.all[1].words
    assert "no_such_module" in outcomes.all[2].words
    assert outcomes.signal is None
    assert outcomes.folders == [tmp_path / "before", tmp_path / new.name]
    assert [event.cell for event in seen if isinstance(event, Started)] == [failing, new]
    assert [event.done for event in seen if isinstance(event, Advanced)] == [0, 1]
    assert len([event for event in seen if isinstance(event, Ended)]) == 4
    again = run_cells([there, new], Store(tmp_path), watch=seen.append)
    assert [(one.state, one.ran) for one in again.all] == [("finished", False)] * 2


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


def test_runs_that_are_there_tell_how_long_others_take(tmp_path: Path) -> None:
    ran(tmp_path / "a", tiny(seed=0))  # 0.5 s a round
    seed, method, other = cell(seed=1), cell(method="smofi"), cell(batch_size=8)
    found = paces_in(Store(tmp_path), [seed, method, other])
    assert found == {seed.key: 0.5, method.key: 0.5}


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


def test_steps_are_timed_where_nothing_is_known() -> None:
    cells = [cell(seed=0), cell(seed=1)]
    found = timed_paces(cells, lambda _: 1)
    assert found[cells[0].key] == found[cells[1].key] > 0
    assert timed_paces(cells, lambda _: 1, budget=-1.0) == {}
