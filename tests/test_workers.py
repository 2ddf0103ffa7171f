"""Several processes share a run: the same numbers, the same bits for the same layout, and a clear end when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file
from sharded import CASES
from torch import Tensor

from smofi.engine.crew import deal

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


@pytest.fixture(scope="module", params=[2, 3])
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


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "smofi", "run", "--display", "jsonl", "--clients", "20", *arguments]


def smofi(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )


def accuracies(folder: Path) -> list[float]:
    return [json.loads(line)["accuracy"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def test_two_workers_and_one_resumed_by_the_other(tmp_path: Path) -> None:
    settings = ("--method", "smofi", "--method", "fedavg", "--rounds")
    for output, workers in (("one", "1"), ("two", "2")):
        done = smofi(*settings, "2", "--output", str(tmp_path / output), "--workers", workers)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    for output, workers in (("one", "2"), ("two", "1")):
        done = smofi("--resume", str(tmp_path / output), "--rounds", "3", "--workers", workers)
        assert done.returncode == 0, done.stderr
    for method in ("smofi", "fedavg"):
        one, two = (accuracies(tmp_path / output / method) for output in ("one", "two"))
        assert len(one) == len(two) == 3
        assert one == pytest.approx(two, abs=0.02)  # in single precision the order of sums shows


@pytest.mark.parametrize("victim", ["first", "second"])
def test_a_worker_that_is_killed_ends_the_run_and_leaves_nobody_behind(tmp_path: Path, victim: str) -> None:
    asked = command("--method", "smofi", "--rounds", "10000", "--workers", "2", "--output", str(tmp_path / "run"))
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
            assert leader.returncode != 0
            assert "worker" in leader.stderr.read()
    until = time.monotonic() + 15
    while Path(f"/proc/{follower}").exists():
        assert time.monotonic() < until, "a worker is left behind"
        time.sleep(0.1)
    done = smofi("--resume", str(tmp_path / "run"), "--rounds", "20000", "--target-accuracy", "0.1", "--workers", "1")
    assert done.returncode == 0, done.stderr


def test_what_is_refused() -> None:
    assert "workers=0 is not accepted" in smofi("--workers", "0").stderr
    assert "diagnose=True is not accepted: expected False with 2 workers" in smofi("--workers", "2", "--diagnose").stderr
