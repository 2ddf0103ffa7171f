"""Several processes share a run: the same numbers, the same bits for the same layout, and a clear end when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from sharded import CASES
from smofi.config import Config
from smofi.engine.crew import Workers, deal
from smofi.errors import InputError
from smofi.experiment import resume, start, worker_count
from smofi.training import prepare

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


def sharded(folder: Path, workers: int, name: str = "") -> dict[str, Tensor]:
    """What tests/sharded.py gives with so many processes."""
    output = folder / f"{workers}{name}.safetensors"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    started = [*(command if workers > 1 else [sys.executable]), str(ROOT / "tests/sharded.py"), str(output)]
    done = subprocess.run(started, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return load_file(output)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    return sharded(tmp_path_factory.mktemp("alone"), 1)


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    return sharded(tmp_path_factory.mktemp("together"), request.param)


@pytest.mark.parametrize("method", CASES)
def test_several_processes_give_the_numbers_of_one(
    method: str, alone: dict[str, Tensor], together: dict[str, Tensor]
) -> None:
    for key in (method, f"{method} history"):
        assert together[key].shape == alone[key].shape
        assert float((together[key] - alone[key]).abs().max()) < 1e-10


@pytest.mark.slow
def test_the_same_layout_gives_the_same_bits(tmp_path: Path) -> None:
    first, second = sharded(tmp_path, 2, "a"), sharded(tmp_path, 2, "b")
    assert all(first[key].equal(second[key]) for key in first)


@pytest.mark.parametrize("hands", [1, 2, 3, 5])
def test_rows_are_dealt_so_that_every_step_is_balanced(hands: int) -> None:
    steps = [5, 1, 40, 2, 3, 3, 3, 17, 8, 8, 1]
    dealt = deal(steps, hands)
    assert sorted(row for rows in dealt for row in rows) == list(range(len(steps)))
    for step in range(max(steps)):
        active = [sum(1 for row in rows if step < steps[row]) for rows in dealt]
        assert max(active) - min(active) <= 1


# ------------------------------------------------------------------------------------------------------- the command


QUICK = ["--clients", "12", "--participation", "0.5", "--model", "cnn", "--width", "4", "--method", "smofi"]
QUICK += ["--local-epochs", "1", "--batch-size", "16", "--display", "jsonl"]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "smofi", "run", *map(str, arguments)]


def smofi(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done


def accuracies(folder: Path) -> list[float]:
    return [json.loads(line)["accuracy"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def test_a_run_of_two_workers_resumed_by_one_is_that_of_one(tmp_path: Path) -> None:
    (alone,) = start(Config(**settings(rounds=3)), tmp_path / "one")
    alone.train()
    smofi(*QUICK, "--rounds", 2, "--output", tmp_path / "two", "--workers", 2)
    smofi("--resume", tmp_path / "two", "--rounds", 3, "--workers", 1, "--display", "jsonl")
    # in single precision the order of sums shows
    assert accuracies(tmp_path / "one") == pytest.approx(accuracies(tmp_path / "two"), abs=0.02)


def settings(**changes: Any) -> dict[str, Any]:
    """QUICK as keywords."""
    names = [word.removeprefix("--").replace("-", "_") for word in QUICK[::2]]
    return {key: value for key, value in zip(names, QUICK[1::2], strict=True) if key != "display"} | changes


@pytest.mark.parametrize("victim", [pytest.param("first", marks=pytest.mark.slow), "second"])
def test_a_worker_that_is_killed_ends_the_run_and_leaves_nobody_behind(tmp_path: Path, victim: str) -> None:
    asked = command(*QUICK, "--rounds", 100_000, "--workers", 2, "--output", tmp_path / "run")
    with subprocess.Popen(
        asked, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as leader:
        metrics, until = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text().count("\n") >= 6):
            assert time.monotonic() < until, "the run does not get going"
            assert leader.poll() is None, leader.stderr and leader.stderr.read()
            time.sleep(0.1)
        (follower,) = workers_of(leader.pid)
        os.kill(leader.pid if victim == "first" else follower, signal.SIGKILL)
        leader.wait(timeout=30)
        assert leader.stderr is not None
        if victim == "second":
            assert leader.returncode not in (0, None)
            assert "worker" in leader.stderr.read()
    until = time.monotonic() + 15
    while Path(f"/proc/{follower}").exists():
        assert time.monotonic() < until, "a worker is left behind"
        time.sleep(0.1)
    (again,) = resume(tmp_path / "run", {"target_accuracy": 0.01})
    assert len(again.train().history) >= 5  # the last checkpoint is whole


def test_a_refusal_is_said_once_and_nobody_is_started_for_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    asked = command(*QUICK, "--workers", 2, "--output", tmp_path)
    done = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.count("it holds a run already") == done.stderr.count("\n") == 1


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="workers=0 is not accepted"):
        worker_count(0, Config())
    with pytest.raises(InputError, match="diagnose=True is not accepted: expected False with 2 workers"):
        prepare(**Config(diagnose=True).arguments(), method="smofi", crew=Workers(0, 2, "gloo"))


@pytest.mark.parametrize(
    ("changes", "count"),
    [({"method": "mergesfl"}, 1), ({"diagnose": True}, 1), ({"clients": 3, "participation": 0.3}, 1), ({}, None)],
)
def test_how_many_workers_there_are_if_nobody_says(
    changes: dict[str, Any], count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMOFI_WORKERS")
    cores = len(os.sched_getaffinity(0))
    assert worker_count(None, Config(**changes)) == (count or min(10, cores))
    monkeypatch.setenv("SMOFI_WORKERS", "7")
    assert worker_count(None, Config()) == 7
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert worker_count(3, Config()) == 5
