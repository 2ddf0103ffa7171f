"""Under torchrun, on one machine and on two, which are network namespaces: a signal is for the first worker, a lost
worker is told with the way to go on, and two machines give the bits of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file

from smofi.runs import RunFolder
from support.network import SERVER, Network, missing
from support.processes import ENVIRONMENT, QUICK, ROOT, accuracies, differing, flags, gone, sharded, workers_of

pytestmark = pytest.mark.slow


@contextmanager
def torchrun(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Two workers, in a process group of their own."""
    asked = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "smofi"]
    asked += ["run", *QUICK, "--rounds", "100000", "--output", "run", *arguments]
    with subprocess.Popen(
        asked, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as agent:  # fmt: skip
        yield agent


def begun(folder: Path, agent: subprocess.Popen[str], rounds: int) -> list[int]:
    """The workers, after so many rounds."""
    metrics, until = folder / "metrics.jsonl", time.monotonic() + 100
    while not (metrics.exists() and metrics.read_text().count("\n") >= rounds):
        assert time.monotonic() < until, "the run does not get going"
        assert agent.poll() is None, agent.communicate()[1]
        time.sleep(0.1)
    return workers_of(agent.pid)


def said(told: str) -> list[str]:
    """What smofi has said; torchrun says more."""
    return [line for line in told.splitlines() if line.startswith(("error: ", "Interrupted"))]


@pytest.mark.parametrize("to", ["torchrun", "its group", "everyone"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_round_and_saves(number: signal.Signals, to: str, tmp_path: Path) -> None:
    with torchrun(tmp_path, "--method", "fedavg") as agent:
        workers = begun(tmp_path / "run" / "smofi", agent, rounds=3)
        assert len(workers) == 2
        for process in workers if to == "everyone" else []:
            os.kill(process, number)
        (os.killpg if to == "its group" else os.kill)(agent.pid, number)
        told = agent.communicate(timeout=60)[1]
    assert all(gone(worker, seconds=1) for worker in workers)
    assert said(told) == ["Interrupted; continue with: smofi run --resume run"]
    done = len(accuracies(tmp_path / "run" / "smofi"))
    assert RunFolder(tmp_path / "run" / "smofi").saved_rounds()[-1] == done


@pytest.mark.parametrize("seconds", [0.5, 2.0, 4.0, 6.0, 8.0])
def test_a_signal_at_the_beginning_ends_all_of_them_soon(seconds: float, tmp_path: Path) -> None:
    with torchrun(tmp_path) as agent:
        time.sleep(seconds)
        workers = workers_of(agent.pid)
        agent.terminate()
        sent = time.monotonic()
        told = agent.communicate(timeout=60)[1]
    assert time.monotonic() - sent < 20, "torchrun had to kill a worker"
    assert all(gone(worker, seconds=1) for worker in workers)
    assert all("interrupted" in line.lower() for line in said(told))  # "Interrupted;" if it was quick to begin


def test_a_lost_worker_is_told_with_the_way_to_go_on(tmp_path: Path) -> None:
    with torchrun(tmp_path) as agent:
        first, second = sorted(begun(tmp_path / "run", agent, rounds=6))
        os.kill(second, signal.SIGKILL)
        told = agent.communicate(timeout=60)[1]
    assert gone(first, seconds=1)
    (line,) = said(told)
    assert line.startswith("error: worker 1 of 2 lost contact with another worker, which has ended or was killed (")
    saved = RunFolder(tmp_path / "run").saved_rounds()[-1]
    rest = f"), so the run cannot go on; round {saved} is saved: continue with: smofi run --resume run"
    assert line.endswith(rest)


# --------------------------------------------------------------------------------------------------------- two machines


@pytest.fixture
def network() -> Iterator[Network]:
    """Neither machine has a name that leads to it, so that the workers find each other by an address alone."""
    if why := missing():
        pytest.skip(why)
    with Network(1) as made:
        yield made


def on_machine(network: Network, number: int, *command: str) -> subprocess.Popen[str]:
    """A torchrun with one worker, on the hub or on the machine beside it."""
    name = (network.hub, *network.machines)[number]
    where = ["--nnodes", "2", "--node-rank", str(number), "--master-addr", SERVER, "--master-port", "29517"]
    asked = [
        "ip",
        "netns",
        "exec",
        name,
        sys.executable,
        "-m",
        "torch.distributed.run",
        *where,
        "--nproc-per-node",
        "1",
    ]
    return subprocess.Popen(
        [*asked, *command], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_two_machines_give_the_bits_of_one_process(network: Network, tmp_path: Path) -> None:
    cases = ["fednag", "mergesfl", "late, own cuts, adam"]
    outputs, options = [tmp_path / "first", tmp_path / "second"], flags(cases, dtype="float32")
    both = [
        on_machine(network, number, "tests/support/sharded.py", str(output), *options)
        for number, output in enumerate(outputs)
    ]
    (alone,) = sharded(tmp_path, 1, only=cases, dtype="float32")
    for one in both:
        told = one.communicate(timeout=200)[1]
        assert one.returncode == 0, told
    assert not outputs[1].exists()
    assert differing(alone, load_file(outputs[0])) == []


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_killed_on_one_machine_ends_the_run_on_the_other(
    victim: int, network: Network, tmp_path: Path
) -> None:
    asked = ["-m", "smofi", "run", *QUICK, "--rounds", "100000", "--output", str(tmp_path / "run")]
    both = [on_machine(network, number, *asked) for number in range(2)]
    begun(tmp_path / "run", both[0], rounds=6)
    workers = [worker for one in both for worker in workers_of(one.pid)]
    assert len(workers) == 2
    os.kill(workers[victim], signal.SIGKILL)
    assert gone(workers[1 - victim], seconds=10)
    told = [one.communicate(timeout=60)[1] for one in both]
    other = f"error: worker {2 - victim} of 2 lost contact with another worker, which has ended or was killed"
    assert other in told[1 - victim]
    assert all(one.returncode != 0 for one in both)
