"""Finished runs are found by their settings, and nothing that is in the way is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from smofi.config import config_yaml
from smofi.errors import InputError
from smofi.runs import FolderLock
from smofi.sweep.store import Store
from support.cells import cell, ran, tiny
from support.run_folder import write_comparison


def test_runs_are_found_whatever_their_folders_are_called(tmp_path: Path) -> None:
    plain = ran(tmp_path / "monday", tiny(seed=1))
    nested = ran(tmp_path / "sweep" / "x" / "y", tiny(seed=2, method="smofi"))
    both = tmp_path / "both"
    for method in ("fedavg", "smofi"):
        ran(both / method, tiny(seed=3, method=method))
    write_comparison(both, config_yaml(tiny(seed=3, method=["fedavg", "smofi"])), ["fedavg", "smofi"])
    store = Store(tmp_path)
    wanted = {plain: cell(seed=1), nested: cell(seed=2, method="smofi"), both / "smofi": cell(seed=3, method="smofi")}
    for path, one in wanted.items():
        found = store.finished(one)
        assert found
        assert found.path == path
    assert store.finished(cell(seed=2)) is None
    assert store.unreadable == {}


def test_a_run_with_fewer_rounds_goes_on_and_one_with_more_is_another(tmp_path: Path) -> None:
    short, long = ran(tmp_path / "short", tiny(rounds=3)), ran(tmp_path / "long", tiny(rounds=9))
    store = Store(tmp_path)
    asked = cell(rounds=5)
    assert store.finished(asked) is None
    assert store.folder_for(asked).path == short
    assert store.folder_for(asked, leave={short}).path == tmp_path / asked.name
    assert store.folder_for(cell(rounds=9)).path == long
    assert store.folder_for(cell(rounds=2)).path == tmp_path / cell(rounds=2).name


@pytest.mark.parametrize("ended", [False, True])
def test_a_run_that_has_not_done_its_rounds_goes_on(ended: bool, tmp_path: Path) -> None:
    """Also if the rounds were done before it was resumed with more of them."""
    path = ran(tmp_path / "begun", tiny(rounds=3), [0.5, 0.6], ended=ended)
    store = Store(tmp_path)
    assert store.finished(cell(rounds=3)) is None
    assert store.folder_for(cell(rounds=3)).path == path


def test_a_run_that_diverged_would_do_so_again(tmp_path: Path) -> None:
    path = ran(tmp_path / "far", tiny(rounds=3), [0.5], diverged=True)
    found = Store(tmp_path).finished(cell(rounds=3))
    assert found
    assert found.path == path


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    path = ran(tmp_path / "one", tiny())
    (path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        Store(tmp_path).folder_for(cell())
    (path / "config.yaml").write_text("rounds: 1\n")
    store = Store(tmp_path)
    assert list(store.unreadable) == [path]
    assert store.folder_for(cell()).path == tmp_path / cell().name  # it may be any run


def test_what_is_in_the_way_is_said(tmp_path: Path) -> None:
    for number, name in enumerate(("letter.txt", "config.yaml")):
        place = tmp_path / cell(seed=number).name
        place.mkdir()
        (place / name).write_text("mine: 1\n")
        with pytest.raises(InputError, match=name):
            Store(tmp_path).folder_for(cell(seed=number))
        assert [one.name for one in place.iterdir()] == [name]


def test_a_run_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    path = ran(tmp_path / "busy", tiny(rounds=3), [0.5], ended=False)
    lock = FolderLock(path)
    try:
        with pytest.raises(InputError, match="is being written by another process"):
            Store(tmp_path).folder_for(cell(rounds=3))
    finally:
        lock.release()
