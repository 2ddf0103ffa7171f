"""Several seeds at a time: the runs that each seed has alone, to the bit, also after a kill."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from smofi import data
from smofi.cli import main
from smofi.config import Config, config_yaml
from smofi.experiment import resume
from smofi.report.snapshots import read_runs, setups_of
from smofi.runs import folders_in
from support.crash import child, command, kill, metrics, same_end, train
from support.run_folder import rewritten

METHODS = ("fedavg", "smofi")
SEEDS = (0, 3)
RUNS = [f"seed-{seed}/{method}" for seed in SEEDS for method in METHODS]
FEW: dict[str, Any] = {
    "clients": 6, "participation": 0.5, "max_train": 240, "max_test": 60, "model": "cnn", "width": 2, "rounds": 2,
    "local_epochs": 1, "batch_size": 16, "method": METHODS, "executor": "loop", "checkpoint_every": 1,
}  # fmt: skip
SEVERAL = Config(**FEW, seeds=SEEDS)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every seed by itself, in folders called as those of several."""
    folder = tmp_path_factory.mktemp("alone")
    for seed in SEEDS:
        train(folder / f"seed-{seed}", Config(**FEW, seed=seed))
    return folder


def same_runs(folder: Path, alone: Path) -> None:
    for run in RUNS:
        same_end(folder / run, alone / run)
        for name in ("config.yaml", "partition.safetensors"):
            assert (folder / run / name).read_bytes() == (alone / run / name).read_bytes()


def test_they_are_the_runs_of_each_seed_and_the_data_is_read_once(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    load = data.load
    monkeypatch.setattr(data, "load", lambda name, **more: (read.append(name), load(name, **more))[1])
    train(tmp_path / "run", SEVERAL)
    assert read == ["digits"]
    same_runs(tmp_path / "run", alone)
    assert [one.path for one in folders_in(tmp_path / "run")] == [tmp_path / "run" / run for run in RUNS]
    assert [json.loads((tmp_path / "run" / run / "about.json").read_text())["seed"] for run in RUNS] == [0, 0, 3, 3]
    (setup,) = setups_of(read_runs([tmp_path / "run"]))
    assert [(one.name, one.seed) for one in setup.histories] == [(m, s) for s in SEEDS for m in METHODS]
    assert main(["run", "--output", str(tmp_path / "run")]) == 2  # it has a run


@pytest.mark.parametrize("number", [9, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 100, 6))])
def test_a_kill_at_any_moment_loses_nothing(number: int, alone: Path, tmp_path: Path) -> None:
    process = child(tmp_path / "run", SEVERAL, ("fsync", number))
    process.join()
    assert process.exitcode == -signal.SIGKILL
    train(tmp_path / "run", SEVERAL)
    same_runs(tmp_path / "run", alone)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_share_all_of_it_and_the_command_resumes_the_whole(start: str, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (tmp_path / "my.yaml").write_text(config_yaml(SEVERAL))
    process = command("run", tmp_path / "my.yaml", "--rounds", 40, "--workers", 2, "--output", folder, start=start)
    while process.is_alive() and not (folder / "seed-3/fedavg/metrics.jsonl").exists():
        process.join(0.05)
    kill(process, everyone=True)
    process = command("run", "--resume", folder, start=start)
    process.join()
    assert process.exitcode == 0
    for seed in SEEDS:
        train(tmp_path / f"seed-{seed}", Config(**FEW | {"rounds": 40, "workers": 2}, seed=seed))
    for run in RUNS:
        assert metrics(folder / run) == metrics(tmp_path / run)


def test_more_rounds_follow_and_other_seeds_are_refused(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(folder := tmp_path / "run", SEVERAL)
    for flag, sentence in {
        "--seed=0": "seed=0 is not accepted: the run was started with seeds='0,3', and a resumed run cannot change",
        "--seeds=0-3": "seeds='0-3' is not accepted: the run was started with seeds='0,3', and a resumed run cannot",
    }.items():
        assert main(["run", "--resume", str(folder), flag]) == 2
        assert sentence in capsys.readouterr().err
    for one in resume(folder, {"rounds": 3}):
        assert len(one.session.run.history) == 2
        one.train()
    for run in RUNS:
        assert metrics(folder / run)[:2] == metrics(alone / run)
        assert len(metrics(folder / run)) == 3


def test_a_comparison_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its file has no seeds."""
    config, folder = Config(**FEW, seed=3), tmp_path / "run"
    train(folder, config)
    for path in (folder, folder / "fedavg", folder / "smofi"):
        text = (path / "config.yaml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith(("seeds:", "# several in place"))]
        rewritten(path, "config.yaml", "\n".join(lines).encode())
    assert [len(one.train().history) for one in resume(folder, {"rounds": 3})] == [3, 3]
    assert main(["show", str(folder)]) == 0
