"""Runs are recognised as cells of a sweep by what decides their numbers, and nothing that is in the way is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smofi.config import Config, config_yaml, run_config
from smofi.config.settings import SETTINGS
from smofi.errors import InputError
from smofi.runs import FolderLock, RunFolder
from smofi.sweep.store import LAST_BITS, WITHOUT_EFFECT, Cell, Store, deciding
from support.cells import cell, ran, tiny
from support.run_folder import write_comparison, write_run

SAME = [
    ({"method": "fedavgm(0.3)"}, {"method": "fedavgm(momentum=0.3)"}),
    ({"method": "smofi(alpha=-0.1, global_momentum=0.3)"}, {"method": "smofi"}),
    ({"method": "smofi(alpha=-1)"}, {"method": "smofi(alpha=-1.0)"}),
    ({"method": "fedprox(mu=1)+smofi"}, {"method": "fedprox(1.0) + smofi"}),
    (
        {"optimizer": "sgd(lr=0.05, momentum=0.9, weight_decay=5e-4)"},
        {"optimizer": "sgd(momentum=0.9,lr=0.05,weight_decay=0.0005)"},
    ),
    ({"partition": "dirichlet(gamma=0.20)"}, {"partition": "dirichlet(0.2)"}),
    ({"cut": 1}, {"cut": "1"}),
    ({}, {"workers": 2, "threads": 2, "checkpoint_every": 1, "memory_limit": "2GB", "data_folder": "elsewhere"}),
]
OTHER: list[dict[str, Any]] = [
    {"method": "smofi(alpha=-1)"},
    {"method": "smofi+fedprox(mu=0.01)"},
    {"seed": 1},
    {"partition": "dirichlet(0.5)"},
    {"optimizer": "adam"},
    {"cut": 2},
    {"clock": "paper"},
    {"clock": "paper", "server_speedup": 10},
    {"executor": "loop"},
    {"validation": 0.1},
    {"rounds": 2},
]


def test_what_decides_the_numbers_makes_the_key() -> None:
    for one, other in SAME:
        assert cell(**one).key == cell(**other).key, one
        assert cell(**one).is_run_of(deciding(tiny(**other))), one
    assert len({cell(**changed).key for changed in ({}, *OTHER)}) == 1 + len(OTHER)


def test_every_setting_counts_unless_it_is_named() -> None:
    """A setting that is added later decides the numbers until it is said that it does not."""
    counted = deciding(Config(executor="loop", method="smofi"))
    assert set(counted) == set(SETTINGS) - WITHOUT_EFFECT
    assert set(counted) >= LAST_BITS


def test_what_is_left_open_may_have_been_decided() -> None:
    """How clients are computed, diagnostics nobody asked for, a number of clients that the data tells."""
    decided = deciding(tiny(executor="vmap", threads=2))
    assert cell().is_run_of(decided)
    assert not cell(executor="loop").is_run_of(decided)
    assert not cell(executor="vmap").is_run_of(decided)  # with one thread
    assert cell(executor="vmap", threads=2).is_run_of(decided)
    assert cell().is_run_of(deciding(tiny(diagnose=True)))
    assert not cell(diagnose=True).is_run_of(deciding(tiny()))
    natural = {"data": "shakespeare", "model": "transformer", "partition": "natural", "clients": None, "cut": "1"}
    assert cell(**natural).is_run_of(deciding(tiny(**natural | {"clients": 30})))


@pytest.mark.parametrize("settings", [{}, {"clock": "full"}, {"method": "mergesfl"}, {"optimizer": "adamw"}], ids=str)
def test_a_run_that_was_started_for_a_cell_is_recognised(settings: dict[str, Any], tmp_path: Path) -> None:
    """Its file has what was decided, and some settings in other words."""
    asked = Cell(Config(**{"method": "fedavg", **settings}))
    write_run(tmp_path / "run", config_yaml(asked.config.model_copy(update={"executor": ("loop",), "workers": 2})))
    config = run_config(RunFolder(tmp_path / "run"))
    assert config
    assert asked.is_run_of(deciding(config))


def test_a_cell_has_one_method_one_seed_and_a_readable_name() -> None:
    one, other = cell(method="fedprox(mu=0.01)+smofi", seed=3), cell(method="fedprox(mu=0.1)+smofi", seed=3)
    assert one.name == f"digits-fedprox-mu=0.01-smofi-seed-3-{one.key}"
    assert one.key != other.key
    assert len(Cell(tiny(), "x" * 400).name) < 140
    with pytest.raises(InputError, match=r"^seeds='0-2' is not accepted: expected one seed in each cell of a sweep"):
        Cell(Config(method="fedavg", seeds="0-2"))
    with pytest.raises(InputError, match="expected one method in each cell of a sweep"):
        Cell(Config(method=["fedavg", "smofi"]))


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


def test_interrupted_runs_go_on_and_diverged_ones_have_ended(tmp_path: Path) -> None:
    begun = ran(tmp_path / "begun", tiny(rounds=3), [0.5, 0.6], ended=False)
    resumed = ran(tmp_path / "resumed", tiny(rounds=3, seed=1), [0.5, 0.6])  # its result is from before that
    far = ran(tmp_path / "far", tiny(rounds=3, seed=2), [0.5], diverged=True)  # and would do so again
    store = Store(tmp_path)
    for seed, path in enumerate((begun, resumed, far)):
        found = store.finished(cell(rounds=3, seed=seed))
        assert (found and found.path) == (far if path is far else None)
        assert store.folder_for(cell(rounds=3, seed=seed)).path == path


def test_what_is_damaged_in_the_way_or_written_by_another_process_is_said_and_left_alone(tmp_path: Path) -> None:
    path = ran(tmp_path / "one", tiny())
    (path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        Store(tmp_path).folder_for(cell())
    (path / "config.yaml").write_text("rounds: 1\n")
    store = Store(tmp_path)
    assert list(store.unreadable) == [path]
    assert store.folder_for(cell()).path == tmp_path / cell().name  # it may be any run
    for number, name in enumerate(("letter.txt", "config.yaml"), start=1):
        place = tmp_path / cell(seed=number).name
        place.mkdir()
        (place / name).write_text("mine: 1\n")
        with pytest.raises(InputError, match=name):
            Store(tmp_path).folder_for(cell(seed=number))
        assert [one.name for one in place.iterdir()] == [name]
    lock = FolderLock(ran(tmp_path / "busy", tiny(rounds=3), [0.5], ended=False))
    try:
        with pytest.raises(InputError, match="is being written by another process"):
            Store(tmp_path).folder_for(cell(rounds=3))
    finally:
        lock.release()
