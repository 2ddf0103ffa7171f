"""What decides the numbers of a cell, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smofi.config import Config, config_yaml, run_config
from smofi.config.settings import SETTINGS
from smofi.errors import InputError
from smofi.runs import RunFolder
from smofi.sweep.store import LAST_BITS, WITHOUT_EFFECT, Cell, deciding
from support.cells import cell, tiny
from support.run_folder import write_run

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
    {"data": "fashion-mnist"},
    {"max_train": 100},
    {"partition": "dirichlet(0.5)"},
    {"model": "mlp"},
    {"width": 3},
    {"optimizer": "adam"},
    {"cut": 2},
    {"participation": 1.0},
    {"local_epochs": 2},
    {"batch_size": 16},
    {"clock": "paper"},
    {"clock": "paper", "server_speedup": 10},
    {"precision": "bf16"},
    {"wire": "int8"},
    {"executor": "loop"},
    {"validation": 0.1},
    {"eval_every": 2},
    {"metrics": ["macro_f1"]},
    {"rounds": 2},
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=str)
def test_the_same_numbers_have_the_same_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert cell(**one).key == cell(**other).key
    assert cell(**one).is_run_of(deciding(tiny(**other)))


@pytest.mark.parametrize("changed", OTHER, ids=str)
def test_other_numbers_have_another_key(changed: dict[str, Any]) -> None:
    assert cell(**changed).key != cell().key


def test_every_setting_counts_unless_it_is_named() -> None:
    """A setting that is added later decides the numbers until it is said that it does not."""
    counted = deciding(Config(executor="loop", method="smofi"))
    assert set(counted) == set(SETTINGS) - WITHOUT_EFFECT
    assert set(counted) >= LAST_BITS


def test_a_run_that_has_decided_how_to_compute_is_that_of_a_cell_that_left_it_open() -> None:
    decided = deciding(tiny(executor="vmap", threads=2))
    assert cell().is_run_of(decided)
    assert not cell(executor="loop").is_run_of(decided)
    assert not cell(executor="vmap").is_run_of(decided)  # with one thread
    assert cell(executor="vmap", threads=2).is_run_of(decided)


@pytest.mark.parametrize(
    "settings",
    [{}, {"clock": "full"}, {"method": "sflv2"}, {"method": "mergesfl"}, {"optimizer": "adamw"}, {"model": "vgg11"}],
    ids=str,
)
def test_a_run_that_was_started_for_a_cell_is_recognised(settings: dict[str, Any], tmp_path: Path) -> None:
    """Its file has what was decided, and some settings in other words."""
    asked = Cell(Config(**{"method": "fedavg", **settings}))
    write_run(tmp_path / "run", config_yaml(asked.config.model_copy(update={"executor": ("loop",), "workers": 2})))
    config = run_config(RunFolder(tmp_path / "run"))
    assert config
    assert asked.is_run_of(deciding(config))


def test_diagnostics_must_be_there_only_if_they_are_asked_for() -> None:
    assert cell().is_run_of(deciding(tiny(diagnose=True)))
    assert not cell(diagnose=True).is_run_of(deciding(tiny()))


def test_the_data_may_tell_the_number_of_clients() -> None:
    natural = {"data": "shakespeare", "model": "transformer", "partition": "natural", "clients": None, "cut": "1"}
    assert cell(**natural).is_run_of(deciding(tiny(**natural | {"clients": 30})))


def test_names_are_short_readable_and_differ() -> None:
    one, other = cell(method="fedprox(mu=0.01)+smofi", seed=3), cell(method="fedprox(mu=0.1)+smofi", seed=3)
    assert one.name == f"digits-fedprox-mu=0.01-smofi-seed-3-{one.key}"
    assert one.key != other.key
    assert len(Cell(tiny(), "x" * 400).name) < 140


def test_a_cell_has_one_method_and_one_seed() -> None:
    with pytest.raises(InputError, match=r"^seeds='0-2' is not accepted: expected one seed in each cell of a sweep"):
        Cell(Config(method="fedavg", seeds="0-2"))
    with pytest.raises(InputError, match="expected one method in each cell of a sweep"):
        Cell(Config(method=["fedavg", "smofi"]))
