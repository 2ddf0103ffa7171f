"""How long a sweep takes, from what is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.sweep.running import START, Advanced, Ended, Outcome, Pace, Started, paces_in, timed_paces
from smofi.sweep.store import Store
from support.cells import cell, ran, tiny


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


def test_steps_are_timed_where_nothing_is_known() -> None:
    cells = [cell(seed=0), cell(seed=1)]
    found = timed_paces(cells, lambda _: 1)
    assert found[cells[0].key] == found[cells[1].key] > 0
    assert timed_paces(cells, lambda _: 1, budget=-1.0) == {}


@pytest.mark.parametrize("jobs", [1, 4])
def test_no_sweep_is_faster_than_its_longest_cell(jobs: int) -> None:
    one = cell(rounds=10)
    assert Pace([one], jobs, {one.key: 1.0}).seconds_left == START + 10
