"""Several processes share a run: the same numbers, the same bits for the same layout, and a clear end when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from smofi.cli import complain, main
from smofi.config import Config
from smofi.engine.processes.forking import _follow_and_exit
from smofi.engine.processes.starting import start_by
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import DistributedWorkers
from smofi.errors import InputError, SmofiError
from smofi.experiment import resume, start
from smofi.experiment.resuming import worker_count
from smofi.runs import RunFolder
from smofi.training import prepare
from support.crash import command as forked_command
from support.crash import same_end
from support.processes import ENVIRONMENT, QUICK, accuracies, differing, gone, sharded, sharded_by_torchrun, workers_of
from support.sharded import CASES, FAMILIES

SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "torchrun"])
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_three_processes_give_the_numbers_of_one(way: str, executor: str, tmp_path: Path) -> None:
    """Their sums are rounded in another order than those of 1, 2, 4 or 8, which test_bits.py compares."""
    (alone,), together = sharded(tmp_path, 1), three(way, tmp_path, executor=executor)
    compared = [name for name in alone if not name.endswith("history")]
    assert {name.split(": ")[0] for name in compared} == {*CASES, *FAMILIES}
    assert [name for name in compared if not close(together[name], alone[name])] == []


def three(way: str, folder: Path, **options: str) -> dict[str, Tensor]:
    return sharded_by_torchrun(folder, 3, **options) if way == "torchrun" else sharded(folder, 3, **options)[0]


def close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.all((one - other).abs() < 1e-10))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "torchrun"])
def test_three_processes_give_the_same_bits_every_time(way: str, tmp_path: Path) -> None:
    assert differing(three(way, tmp_path), three(way, tmp_path)) == []


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_rows_are_dealt_so_that_every_step_is_balanced(workers: int) -> None:
    steps = [5, 1, 40, 2, 3, 3, 3, 17, 8, 8, 1]
    dealt = deal(steps, workers)
    assert sorted(row for rows in dealt for row in rows) == list(range(len(steps)))
    for step in range(max(steps)):
        active = [sum(1 for row in rows if step < steps[row]) for rows in dealt]
        assert max(active) - min(active) <= 1


# ------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=SLOW)])
def test_a_run_of_two_workers_resumed_by_one_is_that_of_one(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMOFI_START", way)
    (alone,) = start(Config(**settings(rounds=3, executor="loop")), tmp_path / "one")
    alone.train()
    two = str(tmp_path / "two")
    assert main(["run", *QUICK, "--executor", "loop", "--rounds", "2", "--output", two, "--workers", "2"]) == 0
    assert main(["run", "--resume", two, "--rounds", "3", "--workers", "1", "--display", "jsonl"]) == 0
    same_end(tmp_path / "one", tmp_path / "two")


def settings(**changes: Any) -> dict[str, Any]:
    """QUICK as keywords."""
    names = [word.removeprefix("--").replace("-", "_") for word in QUICK[::2]]
    return {key: value for key, value in zip(names, QUICK[1::2], strict=True) if key != "display"} | changes


def begun(folder: Path, leader: BaseProcess, errors: Path, rounds: int = 6) -> None:
    """Wait for so many rounds."""
    metrics, until = folder / "metrics.jsonl", time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= rounds):
        assert time.monotonic() < until, "the run does not get going"
        assert leader.exitcode is None, errors.read_text()
        time.sleep(0.1)


@pytest.mark.parametrize("victim", [pytest.param("first", marks=SLOW), "second"])
@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=SLOW)])
def test_a_worker_that_is_killed_ends_the_run_and_leaves_nobody_behind(way: str, victim: str, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    asked = [*QUICK, "--rounds", 100_000, "--workers", 2, "--output", tmp_path / "run"]
    leader = forked_command("run", *asked, start=way, errors=errors)
    begun(tmp_path / "run", leader, errors)
    assert leader.pid
    (follower,) = workers_of(leader.pid)
    os.kill(leader.pid if victim == "first" else follower, signal.SIGKILL)
    leader.join(timeout=30)
    if victim == "second":
        assert leader.exitcode == 2
        saved = RunFolder(tmp_path / "run").saved_rounds()[-1]
        assert errors.read_text() == (
            f"error: worker 2 has ended (killed by signal 9), so the run cannot go on; round {saved} is saved: "
            f"continue with: smofi run --resume {tmp_path / 'run'}\n"
        )
    assert gone(follower), "a worker is left behind"
    (again,) = resume(tmp_path / "run", {"target_accuracy": 0.01})
    assert len(again.train().history) >= 5  # the last checkpoint is whole


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=SLOW)])
@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=SLOW)])
def test_a_signal_to_all_of_them_lets_the_first_one_finish_the_round(
    way: str, number: signal.Signals, tmp_path: Path
) -> None:
    """As a terminal sends it, or whoever ends a job. The second method is still to come: the other waits for it."""
    errors = tmp_path / "errors"
    asked = [*QUICK, "--method", "fedavg", "--rounds", 100_000, "--workers", 2, "--output", tmp_path / "run"]
    leader = forked_command("run", *asked, start=way, errors=errors)
    begun(tmp_path / "run" / "smofi", leader, errors, rounds=3)
    assert leader.pid
    (follower,) = workers_of(leader.pid)
    for process in (follower, leader.pid):
        os.kill(process, number)
    leader.join(timeout=30)
    told = errors.read_text()
    assert (leader.exitcode, told.count("\n")) == (128 + number, 1), told
    assert "Interrupted; continue with: smofi run --resume" in told
    assert gone(follower, seconds=1)
    done = len(accuracies(tmp_path / "run" / "smofi"))
    assert (tmp_path / "run" / "smofi" / "checkpoints" / f"round-{done:06d}.safetensors").exists()


@pytest.fixture
def misbehave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a model that misbehaves in its second worker, forked from here."""
    monkeypatch.chdir(tmp_path)
    asked = ["--model", "python:support.misbehaving:network", "--cut", "0", "--method", "smofi"]
    asked += ["--rounds", "2", "--clients", "8", "--participation", "0.5", "--local-epochs", "1", "--batch-size", "16"]
    asked += ["--display", "jsonl", "--workers", "2", "--output", "run"]

    def run(how: str, *more: str) -> int:
        monkeypatch.setenv("MISBEHAVIOUR", how)
        return main(["run", *asked, *more])

    return run


def test_what_fails_in_another_worker_is_told_and_ends_the_run(
    misbehave: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert misbehave("raise") == 2
    first, second, *others = capfd.readouterr().err.splitlines()
    assert (first.startswith("error: client "), first.endswith("failed in round 1, step 1: no luck today")) == (
        True,
    ) * 2
    assert second == (
        "error: worker 2 has ended (exit code 1), so the run cannot go on; no round is saved yet: start again with: "
        "smofi run --resume run"
    )
    assert others == []


def test_another_worker_is_silent_and_writes_nothing(
    misbehave: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    others = workers_of(os.getpid())  # of other tests in this process
    assert misbehave("chat", "--method", "fedavg") == 0
    told, complained = capfd.readouterr()
    events = Counter(json.loads(line)["event"] for line in told.splitlines() if line.startswith("{"))
    assert events == {"RunStarted": 2, "RoundStarted": 4, "RoundDone": 4, "RunEnded": 2}
    assert complained == ""
    assert {line for line in told.splitlines() if not line.startswith("{")} == {f"process {os.getpid()}"}
    assert [len(accuracies(Path("run") / method)) for method in ("fedavg", "smofi")] == [2, 2]
    assert workers_of(os.getpid()) == others


MISBEHAVING = [sys.executable, "-m", "smofi", "run", "--model", "python:support.misbehaving:network", "--cut", "0"]
MISBEHAVING += ["--method", "fedavg", "--workers", "2"]


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_run_of_a_first_one_that_is_busy(tmp_path: Path) -> None:
    environment, started = ENVIRONMENT | {"MISBEHAVIOUR": "die"}, time.monotonic()
    done = subprocess.run(MISBEHAVING, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert time.monotonic() - started < 40
    assert done.returncode == 1
    (folder,) = (tmp_path / "runs").iterdir()
    assert done.stderr == (
        "error: worker 2 has ended (killed by signal 9), so the run cannot go on; no round is saved yet: start again "
        f"with: smofi run --resume runs/{folder.name}\n"
    )


@pytest.mark.slow
def test_a_worker_that_dies_ends_a_run_that_nobody_hears_any_more(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = ENVIRONMENT | {"MISBEHAVIOUR": "die"}
    try:
        done = subprocess.run(
            MISBEHAVING,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=writer,
            cwd=tmp_path,
            timeout=40,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 1


def test_a_forked_worker_that_nobody_hears_never_gets_back_to_what_the_first_one_does() -> None:
    def fail() -> None:
        raise SmofiError("nobody hears this")

    first, returned = os.getpid(), 77
    if not (child := os.fork()):
        try:
            reader, writer = os.pipe()
            os.close(reader)
            sys.stderr = open(writer, "w", buffering=1)  # noqa: SIM115  # as a terminal that is gone
            _follow_and_exit(fail, first, complain)
        finally:
            os._exit(returned)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.slow
def test_a_first_one_that_is_killed_takes_along_one_that_is_busy(tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"MISBEHAVIOUR": "busy"}
    with subprocess.Popen(MISBEHAVING, env=environment, stdout=subprocess.DEVNULL, cwd=tmp_path) as leader:
        until = time.monotonic() + 60
        while not (tmp_path / "busy").exists():
            assert time.monotonic() < until, "the run does not get going"
            time.sleep(0.1)
        (follower,) = workers_of(leader.pid)
        leader.kill()
    assert gone(follower, seconds=3)


def test_how_workers_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [start_by(device) for device in ("cpu", "cuda", "cuda:1")] == ["fork", "spawn", "spawn"]
    monkeypatch.setenv("SMOFI_START", "spawn")
    assert start_by("cpu") == "spawn"
    monkeypatch.setenv("SMOFI_START", "fork")
    with pytest.raises(
        InputError, match="SMOFI_START='fork' is not accepted: expected spawn, other than on Linux with"
    ):
        start_by("cuda")
    monkeypatch.setenv("SMOFI_START", "forks")
    with pytest.raises(InputError, match=r"SMOFI_START='forks' is not accepted: .* \(did you mean 'fork'\?\)"):
        start_by("cpu")
    monkeypatch.delenv("SMOFI_START")
    torch.set_num_threads(2)
    try:
        assert start_by("cpu") == "spawn"
    finally:
        torch.set_num_threads(1)


def test_a_refusal_is_said_once_and_nobody_is_started_for_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    errors = tmp_path.with_name(f"{tmp_path.name}-errors")
    refused = forked_command("run", *QUICK, "--workers", 2, "--output", tmp_path, errors=errors)
    refused.join(timeout=60)
    assert refused.exitcode == 2
    told = errors.read_text()
    assert told.count("expected a new or an empty folder, but it has config.yaml") == told.count("\n") == 1


def test_what_is_refused() -> None:
    with pytest.raises(ValidationError, match="workers=0 is not accepted"):
        Config(workers=0)
    with pytest.raises(InputError, match="diagnose=True is not accepted: expected False with 2 workers"):
        prepare(**Config(diagnose=True).arguments(), method="smofi", workers=DistributedWorkers(0, 2, "gloo"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"workers": 500}, "workers=500 is not accepted: expected at most 20, since that many clients take part"),
        (
            {"workers": 500, "clients": 2000, "participation": 1, "memory_limit": "1GB"},
            "that memory_limit=1GB leaves, but 500 workers take at least 25 MB each",
        ),
    ],
)
def test_workers_without_work_or_memory_are_refused_before_anything_starts(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        worker_count(Config(**settings))


def test_a_resumed_run_keeps_workers_that_have_nothing_to_do() -> None:
    """Earlier versions accepted them, and with another number the last bits may differ."""
    assert worker_count(Config(workers=11), resumed=True) == 11


@pytest.mark.parametrize(
    ("changes", "count"),
    [({"method": "mergesfl"}, 1), ({"diagnose": True}, 1), ({"clients": 3, "participation": 0.3}, 1), ({}, None)],
)
def test_how_many_workers_there_are_if_nobody_says(
    changes: dict[str, Any], count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMOFI_WORKERS")
    cores = len(os.sched_getaffinity(0))
    assert worker_count(Config(**changes)) == (count or min(10, cores))
    monkeypatch.setenv("SMOFI_WORKERS", "7")
    assert worker_count(Config()) == 7
    assert worker_count(Config(participation=0.1)) == 4, "a default suits the run"
    monkeypatch.setenv("SMOFI_WORKERS", "many")
    with pytest.raises(InputError, match=r"^SMOFI_WORKERS='many' is not accepted: expected a whole number"):
        worker_count(Config())
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert worker_count(Config(workers=3)) == 5
