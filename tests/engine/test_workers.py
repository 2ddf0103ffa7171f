"""Several processes share a run: the same numbers, resumed by any number of them, and a clear end when one dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import smofi
from smofi.cli import main
from smofi.config import Config
from smofi.experiment import resume, start
from smofi.experiment.resuming import worker_count
from smofi.runs import RunFolder
from support.crash import command as forked_command
from support.crash import kill, metrics, same_end
from support.processes import (
    ENVIRONMENT,
    QUICK,
    accuracies,
    differing,
    exit_code,
    fold,
    gone,
    in_each,
    sharded,
    sharded_by_torchrun,
    workers_of,
)  # fmt: skip
from support.sharded import CASES, FAMILIES

SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "torchrun"])
def test_three_processes_give_the_numbers_of_one_and_the_same_bits_every_time(way: str, tmp_path: Path) -> None:
    """Their sums are rounded in another order than those of 1, 2, 4 or 8, which test_bits.py compares."""
    (alone,) = sharded(tmp_path, 1)
    first, again = (
        sharded_by_torchrun(tmp_path, 3) if way == "torchrun" else sharded(tmp_path, 3)[0] for _ in range(2)
    )
    assert differing(first, again) == []
    compared = [name for name in alone if not name.endswith("history")]
    assert {name.split(": ")[0] for name in compared} == {*CASES, *FAMILIES}
    assert [name for name in compared if not (alone[name] - first[name]).abs().lt(1e-10).all()] == []


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


def test_a_refusal_is_said_once_and_nobody_is_started_for_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    errors = tmp_path.with_name(f"{tmp_path.name}-errors")
    refused = forked_command("run", *QUICK, "--workers", 2, "--output", tmp_path, errors=errors)
    refused.join(timeout=60)
    assert refused.exitcode == 2
    told = errors.read_text()
    assert told.count("expected a new or an empty folder, but it has config.yaml") == told.count("\n") == 1


@pytest.mark.parametrize(
    ("asked", "variable", "told"),
    [
        ("--workers 0", "", "expected a whole number >= 1"),
        ("--workers 500", "", "expected at most 6, since that many clients take part"),
        ("--workers 5 --memory-limit 1MB", "", "5 workers take at least 25 MB each"),
        ("", "SMOFI_WORKERS=many", "SMOFI_WORKERS='many' is not accepted: expected a whole number"),
        ("--workers 2", "SMOFI_START=forks", "did you mean 'fork'?"),
        ("--workers 2 --diagnose", "", "is not accepted: expected False with 2 workers"),
    ],
)
def test_what_is_refused(
    asked: str,
    variable: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if variable:
        monkeypatch.setenv(*variable.split("="))
    assert main(["run", *QUICK, *asked.split(), "--output", str(tmp_path / "run")]) == 2
    assert told in " ".join(capfd.readouterr().err.split())
    assert not (tmp_path / "run").exists()


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
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert worker_count(Config(workers=3)) == 5


# ------------------------------------------------------------------------------------------ killed twice, and resumed

SMALL: list[object] = ["--clients", 20, "--participation", 0.5, "--model", "cnn", "--width", 4, "--local-epochs", 1]
SMALL += [
    "--batch-size",
    16,
    "--checkpoint-every",
    1,
    "--metrics",
    "top1",
    "--metrics",
    "per_client",
    "--display",
    "jsonl",
]
FOREVER = 100_000


def rounds_done(folder: Path) -> int:
    return len(metrics(folder)) if (folder / "metrics.jsonl").exists() else 0


def ended(*arguments: object, start: str) -> None:
    process = forked_command(*arguments, start=start)
    process.join()
    assert process.exitcode == 0


def killed(folder: Path, *arguments: object, start: str, draw: random.Random) -> None:
    """Kill this command at some moment of a later round than it began with, all of its workers or the first."""
    process = forked_command(*arguments, start=start)
    before, until = rounds_done(folder), time.monotonic() + 120
    while rounds_done(folder) < before + 2:
        assert time.monotonic() < until, "the run does not get going"
        assert process.exitcode is None, "the run has ended"
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.3))
    kill(process, everyone=draw.random() < 0.5)


EVERY = [
    ("smofi", "loop", "fork", (2, 1, 4)),
    *(pytest.param(*one, marks=SLOW) for one in (
        ("smofi", "vmap", "fork", (4, 2, 1)),
        ("smofi", "vmap", "fork", (1, 8, 2)),
        ("smofi", "loop", "spawn", (2, 1, 4)),
        ("fednag", "vmap", "spawn", (4, 1, 2)),
        ("fednag", "loop", "fork", (1, 4, 2)),
        ("sflv1", "loop", "fork", (4, 1, 2)),
        ("slowmo(0.5, 0.4, steps=6)+sflv1", "vmap", "fork", (2, 4, 1)),
        ("sflv2('step')", "loop", "fork", (2, 1, 4)),
        ("mergesfl", "loop", "spawn", (1, 2, 4)),
        ("fedprox(mu=0.1)+fedavgm(0.3)", "vmap", "fork", (2, 8, 1)),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("method", "executor", "start", "workers"), EVERY)
def test_killed_twice(method: str, executor: str, start: str, workers: tuple[int, int, int], tmp_path: Path) -> None:
    draw = random.Random(f"{method} {executor} {start} {workers}")
    settings = [*SMALL, "--method", method, "--executor", executor]
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    first, second, third = workers
    begin = ["run", *settings, "--rounds", FOREVER, "--output", folder, "--workers", first]
    killed(folder, *begin, start=start, draw=draw)
    go_on = ["run", "--resume", folder, "--display", "jsonl", "--workers"]
    killed(folder, *go_on, second, start=start, draw=draw)
    rounds = rounds_done(folder) + 2
    ended(*go_on, third, "--rounds", rounds, start=start)
    ended("run", *settings, "--rounds", rounds, "--output", whole, "--workers", 1, start=start)
    same_end(folder, whole)
    assert len(metrics(whole)) == rounds
    some_finish_late = any(len(set(line["steps"])) > 1 for line in metrics(whole))
    assert some_finish_late != ("steps=" in method)


# ------------------------------------------------------------------------------------------- smofi.ForkedWorkers alone


@pytest.fixture
def within_a_minute() -> Iterator[None]:
    """Who waits for ever fails."""

    def late(number: int, frame: FrameType | None) -> None:
        pytest.fail("still waiting after a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


COUNTS = [0, 1, 7, 8_191, 100_003, 1_000_001]
TYPES = [torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool]
SUMS = {f"{count} {dtype}": (count, dtype) for count in COUNTS for dtype in TYPES}


def brought(rank: int, count: int, dtype: torch.dtype) -> Tensor:
    """What a process comes with: numbers whose sum depends on the order of adding, and a negative zero."""
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(rank), dtype=torch.float64) * 1000
    numbers[5:6] = -0.0
    return numbers.to(dtype)


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize("size", [2, 3, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5, 8))])
def test_a_sum_and_a_copy_of_any_size_and_type_are_the_same_in_every_process(size: int, tmp_path: Path) -> None:
    """Also of tensors that do not lie in one piece, and however uneven the processes are."""

    def work(workers: smofi.ForkedWorkers) -> dict[str, Tensor]:
        found = {name: workers.sum(brought(workers.rank, *case)) for name, case in SUMS.items()}
        found |= {f"copy {name}": workers.copy(brought(workers.rank, *case)) for name, case in SUMS.items()}
        whole = torch.full((6, 1000), float(workers.rank + 1))
        workers.sum(whole.T[3:5])
        with torch.inference_mode():
            found |= {"apart": whole, "inside": workers.sum(torch.ones(3)).clone()}
        many = torch.empty(300, 50, dtype=torch.int64)
        for round in range(300):
            if round % (7 + workers.rank) == 0:
                time.sleep(0.002)  # longer than anybody asks again before falling asleep
            many[round] = workers.sum(torch.full((50,), round * 10**workers.rank))
        return {**found, "many": many}

    for rank, found in enumerate(in_each(size, tmp_path, work)):
        for name, case in SUMS.items():
            expected = fold([brought(one, *case) for one in range(size)])
            assert found[name].equal(expected), name
            assert not found[name].is_floating_point() or found[name][5:6].signbit().all()
            assert found[f"copy {name}"].equal(brought(0, *case))
        apart = torch.full((6, 1000), float(rank + 1))
        apart[:, 3:5] = size * (size + 1) / 2
        assert found["apart"].equal(apart)
        assert found["inside"].tolist() == [float(size)] * 3
        factor = sum(10**one for one in range(size))
        assert found["many"].equal((torch.arange(300) * factor)[:, None].expand(-1, 50))


def again_and_again(operation: Callable[[Tensor], Tensor]) -> None:
    for _ in range(1000):
        operation(torch.ones(100_000))


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize("operation", ["sum", "copy"])
@pytest.mark.parametrize("size", [2, 4])
def test_a_killed_process_is_noticed_by_all_the_others(size: int, operation: str, tmp_path: Path) -> None:
    workers = smofi.ForkedWorkers(size)
    workers.fork()
    if workers.rank > 0:
        signal.alarm(60)
        try:
            workers.sum(torch.ones(3))
            if workers.rank == size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            again_and_again(getattr(workers, operation))
        except smofi.SmofiError as error:
            (tmp_path / str(workers.rank)).write_text(str(error))
        finally:
            os._exit(0)
    workers.sum(torch.ones(3))
    with pytest.raises(
        smofi.SmofiError, match=f"worker 1 of {size} lost contact with another worker, which has ended or was kil"
    ):
        again_and_again(getattr(workers, operation))
    assert sum(exit_code(child) for child in workers.children) == signal.SIGKILL
    workers.end()
    told = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(told) == {str(rank) for rank in range(1, size - 1)}
    assert all(f"worker {int(rank) + 1} of {size} lost contact" in text for rank, text in told.items())


def test_to_end_them_leaves_no_process_and_no_open_file() -> None:
    before = set(os.listdir("/proc/self/fd"))
    workers = smofi.ForkedWorkers(4)
    workers.fork()
    if workers.rank > 0:
        time.sleep(60)
        os._exit(0)
    children = list(workers.children)
    assert len(children) == 3
    workers.end()
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert set(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(smofi.SmofiError):
        workers.sum(torch.ones(1))


def test_those_who_were_made_are_ended_if_another_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = os.fork

    def fork() -> int:
        if made:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        child = real()
        if not child:
            time.sleep(60)
            os._exit(0)
        made.append(child)
        return child

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(BlockingIOError):
        smofi.ForkedWorkers(3).fork()
    assert not Path(f"/proc/{made[0]}").exists()


def test_workers_that_are_not_ready_are_refused() -> None:
    with pytest.raises(smofi.InputError, match="size=0 is not accepted"):
        smofi.ForkedWorkers(0)
    workers = smofi.ForkedWorkers(2)
    with pytest.raises(smofi.InputError, match=r"expected fork\(\) to be called before"):
        workers.sum(torch.ones(1))
    torch.set_num_threads(2)
    try:
        with pytest.raises(smofi.InputError, match="threads=2 is not accepted: expected 1 in a process that forks"):
            workers.fork()
    finally:
        torch.set_num_threads(1)
        workers.end()
