"""Every setting, from its one definition to the run: a setting that gets lost on the way fails here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError

import smofi
from smofi import experiment, training
from smofi.cli import main
from smofi.clock.devices import ALWAYS
from smofi.config import Config, changed_fields, config_yaml, read_config, sentence_of
from smofi.config.federation import Federation, gather
from smofi.config.settings import RESUMABLE, SETTINGS, TRAIN_ARGUMENTS
from smofi.data.augment import parse_augment
from smofi.engine import assembly
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.engine.plan import Planner
from smofi.engine.run import Run
from smofi.experiment.resuming import worker_count
from support.settings_page import table, table_on_page

BASE: dict[str, Any] = {
    "clients": 4,
    "partition": "iid",
    "max_train": 200,
    "max_test": 20,
    "model": "cnn",
    "width": 2,
    "method": "smofi",
    "participation": 1.0,
    "local_epochs": 1,
    "batch_size": 16,
    "rounds": 2,
    "executor": "loop",
}
FULL = {"clock": "full"}
TABLE = {"data": "csv:{folder}/table.csv", "model": "mlp", "cut": "1"}


@dataclass(frozen=True)
class Prepared:
    """All that a configuration becomes, and an empty folder."""

    config: Config
    folder: Path
    federation: Federation
    session: smofi.Session

    @property
    def run(self) -> Run:
        return self.session.run

    @property
    def planner(self) -> Planner:
        return self.run.planner

    @property
    def simulation(self) -> Simulation:
        return self.run.simulation

    @property
    def clock(self) -> Any:
        return self.planner.clock


@dataclass(frozen=True)
class Change:
    """Another value of a setting: what `seen` sees of the run is `expected` then, and something else without it.
    `{folder}` in the value stands for a folder with files; `beside` are settings that it needs."""

    value: Any
    seen: Callable[[Prepared], Any]
    expected: Any
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """A value with which the run is refused, in a sentence that has this in it."""

    value: Any
    sentence: str
    beside: dict[str, Any] = field(default_factory=dict)


def blocks(made: Prepared) -> str:
    return str(made.session.model)


def rounds_between_checkpoints(made: Prepared) -> int:
    (one,) = experiment.start(made.config, made.folder)
    one.close()
    return one.keeper.every


def seeds_of_the_runs(made: Prepared) -> list[int]:
    runs = experiment.start(made.config, made.folder)
    for one in runs:
        one.close()
    return [one.session.run.planner.settings.seed for one in runs]


def threads_of_a_run(made: Prepared) -> int:
    try:
        (one,) = experiment.start(made.config, made.folder)
        one.close()
        return torch.get_num_threads()
    finally:
        torch.set_num_threads(1)


CHANGES: dict[str, Change | Refused] = {
    "data": Change("npz:{folder}/own.npz", lambda made: made.federation.source.input_shape, (1, 9, 9)),
    "label_column": Change("b", lambda made: made.federation.source.classes, 5, TABLE),
    "client_column": Change("b", lambda made: made.federation.source.owners, tuple("01234"), TABLE),
    "data_folder": Refused("{folder}/nowhere", "{folder}/nowhere", {"data": "cifar10"}),
    "image_size": Change(4, lambda made: made.federation.source.input_shape, (1, 4, 4)),
    "max_train": Change(100, lambda made: sum(map(len, made.federation.clients)), 100),
    "max_test": Change(7, lambda made: made.run.evaluator.test and len(made.run.evaluator.test), 7),
    "augment": Change("crop(1)+flip", lambda made: made.simulation.augment, parse_augment("crop(1)+flip")),
    "clients": Change(3, lambda made: len(made.planner.sizes), 3),
    "partition": Change("shards(1)", lambda made: len(np.unique(made.federation.clients[0].labels)) < 5, True),
    "model": Change("resnet8", lambda made: "BasicBlock" in blocks(made), True),
    "width": Change(3, lambda made: "Conv2d(1, 3" in blocks(made), True),
    "norm": Change("group", lambda made: "GroupNorm" in blocks(made), True, {"model": "resnet8"}),
    "method": Change("fedprox(mu=0.5)", lambda made: made.simulation.setup.method.name, "fedprox(mu=0.5)"),
    "optimizer": Change("adam(lr=0.25)", lambda made: made.simulation.setup.optimizer, smofi.adam(lr=0.25)),
    "cut": Change("0,1", lambda made: str(made.planner.cuts.options[0]), "0,1"),
    "rounds": Change(7, lambda made: made.run.rounds, 7),
    "participation": Change(0.5, lambda made: made.planner.per_round, 2),
    "local_epochs": Change(3, lambda made: made.planner.plan(0).steps, [9] * 4),
    "batch_size": Change(10, lambda made: made.planner.plan(0).batch_sizes, [10] * 4),
    "seed": Change(5, lambda made: made.planner.settings.seed, 5),
    "seeds": Change("0,5", seeds_of_the_runs, [0, 5]),
    "device": Refused("cuda:99", "device='cuda:99' is not accepted: expected a device that torch can use"),
    "validation": Change(0.1, lambda made: made.run.evaluator.validation and len(made.run.evaluator.validation), 20),
    "patience": Change(3, lambda made: made.run.stopping.patience, 3, {"validation": 0.1}),
    "target_accuracy": Change(0.75, lambda made: made.run.stopping.target_accuracy, 0.75),
    "eval_every": Change(2, lambda made: made.run.eval_every, 2),
    "checkpoint_every": Change(3, rounds_between_checkpoints, 3),
    "metrics": Change("macro_f1", lambda made: list(made.run.evaluator.on_test), ["macro_f1"]),
    "diagnose": Change(True, lambda made: made.simulation.diagnose, True),
    "executor": Change("vmap", lambda made: made.simulation.execution.at_once > 0, True),
    "threads": Change(2, threads_of_a_run, 2),
    "workers": Change(3, lambda made: worker_count(made.config), 3),
    "precision": Change("bf16", lambda made: made.simulation.setup.cast is nullcontext, False),
    "compile": Change(True, lambda made: made.simulation.setup.compiled, True),
    "server_threads": Change(2, lambda made: made.simulation.setup.server_threads, 2, {"method": "mergesfl"}),
    "memory_limit": Refused("1MB", "memory_limit='1MB' is not accepted: expected at least"),
    "wire": Change("int8", lambda made: made.simulation.setup.wire, COMPRESSIONS["int8"]),
    "clock": Change("paper", lambda made: made.clock and made.clock.timing.clock, "paper"),
    "devices": Change("{folder}/fleet.csv", lambda made: made.clock.devices[0].up, 100_000.0, FULL),
    "availability": Change("phones", lambda made: made.clock.devices[0].presence is ALWAYS, False, FULL),
    "server_speedup": Change(7.0, lambda made: made.clock.timing.server_speedup, 7.0, FULL),
    "server_parallel": Change(2, lambda made: made.clock.timing.server_parallel, 2, FULL),
    "step_deadline": Change(9.5, lambda made: made.clock.deadline, 9.5, FULL),
}
each_setting = pytest.mark.parametrize("name", SETTINGS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 9 x 9 images, a table, and devices that send 100,000 bytes a second."""
    made = tmp_path_factory.mktemp("files")
    images, labels = np.random.default_rng(0).integers(0, 255, (300, 9, 9), dtype=np.uint8), np.arange(300) % 3
    np.savez(made / "own.npz", x=images, y=labels, x_test=images[:60], y_test=labels[:60])
    (made / "fleet.csv").write_text("ms_per_sample,kbps\n10,800\n")
    (made / "table.csv").write_text("a,b,label\n" + "".join(f"{i},{i % 5},{i % 3}\n" for i in range(300)))
    return made


def settings_with(name: str, folder: Path, *, changed: bool = True) -> dict[str, Any]:
    change = CHANGES[name]
    given = BASE | change.beside | ({name: change.value} if changed else {})
    return {key: value.format(folder=folder) if isinstance(value, str) else value for key, value in given.items()}


def prepared(config: Config, folder: Path) -> Prepared:
    federation = gather(config)
    session = smofi.prepare(**config.arguments(federation), method=config.method[0])
    return Prepared(config, folder, federation, session)


# ----------------------------------------------------------------------------------------------------------- definition


def test_every_setting_is_walked_over_and_its_definition_whole() -> None:
    assert list(CHANGES) == list(SETTINGS) == list(Config.model_fields)
    for name, setting in SETTINGS.items():
        found = Config.model_fields[name]
        assert found.description == setting.help
        assert setting.help.count("\n") == 0 < len(setting.help)
        assert found.default == setting.default == getattr(Config(**{name: setting.default}), name)


# ---------------------------------------------------------------------------------------------------------------- reach


@each_setting
def test_it_reaches_the_run(name: str, folder: Path, tmp_path: Path) -> None:
    change = CHANGES[name]
    after = Config(**settings_with(name, folder))
    if isinstance(change, Refused):
        with pytest.raises(smofi.InputError) as refused:
            prepared(after, tmp_path)
        assert change.sentence.format(folder=folder) in str(refused.value)
        return
    before = Config(**settings_with(name, folder, changed=False))
    assert change.seen(prepared(before, tmp_path / "before")) != change.expected
    assert change.seen(prepared(after, tmp_path / "after")) == change.expected


def test_the_seed_reaches_the_initial_weights_the_partition_and_the_planner(folder: Path, tmp_path: Path) -> None:
    before, after, again = (
        prepared(Config(**settings_with("seed", folder, changed=changed)), tmp_path) for changed in (False, True, True)
    )
    seen: list[Callable[[Prepared], Any]] = [
        lambda made: made.run.state.weights.tolist(),
        lambda made: made.federation.owners.tolist(),
        lambda made: made.planner.settings.seed,
    ]
    for see in seen:
        assert see(before) != see(after) == see(again)


def test_weights_and_samples_are_on_the_device(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on "meta", the one device besides the CPU that every machine has. Its tensors have shapes but no numbers, so
    what needs numbers is left out: trying out the device, and trying out a step."""
    monkeypatch.setattr(training, "check_device", torch.device)
    monkeypatch.setattr(assembly, "_try_out", lambda *_: None)
    settings = settings_with("device", folder, changed=False)
    for device in ("cpu", "meta"):
        made = prepared(Config(**settings | {"device": device, "validation": 0.1}), tmp_path)
        state, evaluator = made.run.state, made.run.evaluator
        samples: list[Any] = [*made.simulation.clients, evaluator.test, evaluator.validation]
        tensors = [state.weights, *made.session.model.parameters(), *(one.store.inputs for one in samples)]
        assert {tensor.device.type for tensor in tensors} == {device}


# ----------------------------------------------------------------------------------------------- files, flags, resuming


@each_setting
def test_flag_file_and_resuming_follow_it(name: str, folder: Path, tmp_path: Path, capsys: Any) -> None:
    given = settings_with(name, folder)
    (tmp_path / "beside.yaml").write_text(yaml.safe_dump({key: value for key, value in given.items() if key != name}))
    flag = f"--{name.replace('_', '-')}"
    said = [flag] if given[name] is True else [flag, str(given[name])]
    assert main(["config", str(tmp_path / "beside.yaml"), *said]) == 0
    written = capsys.readouterr().out
    assert written == config_yaml(Config(**given))
    assert f"# {SETTINGS[name].help}\n{name}: " in written
    (tmp_path / "whole.yaml").write_text(written)
    assert read_config(tmp_path / "whole.yaml") == Config(**given)
    before = Config(**settings_with(name, folder, changed=False))
    assert before != Config(**given)
    assert bool(changed_fields(before, Config(**given))) == (name not in RESUMABLE) == (not SETTINGS[name].resumable)


# --------------------------------------------------------------------------------------------------------------- Python


def test_the_arguments_of_train_are_the_settings_and_what_stands_beside_them() -> None:
    parameters = inspect.signature(smofi.train).parameters
    assert set(parameters) == set(TRAIN_ARGUMENTS) | set(training.HELP)
    assert all(f"\n    {name} " in (smofi.train.__doc__ or "") for name in parameters)


def test_virtual_time_has_the_fields_and_defaults_of_the_settings() -> None:
    assert {one.name: one.default for one in fields(smofi.Timing)} == {
        name: setting.default for name, setting in SETTINGS.items() if setting.timing
    }


WRONG_TEXT = {"augment": "blur", "cut": "half", "method": "fedaverage", "metrics": ["top"], "optimizer": "sgd(lr=-1)"}
IN_TIMING = ["server_speedup", "server_parallel", "step_deadline"]


@pytest.mark.parametrize("name", [*IN_TIMING, *sorted(set(TRAIN_ARGUMENTS) - {"device"})])  # which Python tries out
def test_python_and_configurations_refuse_in_the_same_words(name: str) -> None:
    wrong = WRONG_TEXT.get(name, "nonsense" if name in ("clock", "wire") else -1)
    x, y = torch.zeros(8, 4), torch.arange(8) % 2
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    with pytest.raises(ValidationError) as in_a_file:
        Config(**{name: wrong})
    with pytest.raises(smofi.InputError) as in_python:
        _ = (
            smofi.Timing("full", **{name: wrong})
            if name in IN_TIMING
            else smofi.prepare(model, [(x, y)], (x, y), **{"batch_size": 4, name: wrong})
        )
    assert str(in_python.value) == sentence_of(in_a_file.value)


# -------------------------------------------------------------------------------------------------------- documentation


def test_the_page_has_the_table_of_the_definitions() -> None:
    assert table_on_page() == table(), "run: python tests/support/settings_page.py"
