"""Several machines: two network namespaces joined by a virtual cable, each with a torchrun of its own.

Neither has a name that leads to it, so that the workers find each other by the address of the first alone.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from smofi.engine.processes.network import interface_towards
from support.processes import ENVIRONMENT, QUICK, ROOT, accuracies, differing, flags, gone, sharded, workers_of

ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 29517


class Machines:
    """Two of them."""

    def __init__(self) -> None:
        self.names = [f"smofi-{os.getpid()}-{number}" for number in range(2)]
        self.cables = [f"sm{os.getpid()}{end}" for end in "ab"]

    def build(self) -> None:
        for name in left_behind():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        for name in self.names:
            ip("netns", "add", name)
        (one, other), (left, right) = self.names, self.cables
        ip("link", "add", left, "netns", one, "type", "veth", "peer", "name", right, "netns", other)
        for name, cable, address in zip(self.names, self.cables, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", cable)
            for interface in ("lo", cable):
                ip("-n", name, "link", "set", interface, "up")

    def remove(self) -> None:
        """The machines, and whoever still runs on them."""
        for name in self.names:
            asked = ["ip", "netns", "pids", name]
            for process in subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split():
                os.kill(int(process), signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def start(self, number: int, *command: str) -> subprocess.Popen[str]:
        """A torchrun on one of them, with one worker."""
        where = ["--nnodes", "2", "--node-rank", str(number), "--master-addr", ADDRESSES[0], "--master-port", str(PORT)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *where, "--nproc-per-node", "1", *command]
        asked = ["ip", "netns", "exec", self.names[number], *torchrun]
        return subprocess.Popen(
            asked, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


def left_behind() -> list[str]:
    """The machines of tests that were killed and could not remove them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.splitlines()
    found = [re.match(r"smofi-(\d+)-\d\b", line) for line in listed]
    return [one[0] for one in found if one and not Path(f"/proc/{one[1]}").exists()]


@pytest.fixture
def machines() -> Iterator[Machines]:
    if not shutil.which("ip"):
        pytest.skip("needs ip, of iproute2")
    found = Machines()
    try:
        try:
            found.build()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"needs to make network namespaces, as root may: {error.stderr.strip()}")
        yield found
    finally:
        found.remove()


@pytest.mark.slow
def test_two_machines_give_the_bits_of_one_process(machines: Machines, tmp_path: Path) -> None:
    cases = ["fednag", "mergesfl", "late, own cuts, adam"]
    outputs, options = [tmp_path / "first", tmp_path / "second"], flags(cases, dtype="float32")
    asked = [["tests/support/sharded.py", str(output), *options] for output in outputs]
    both = [machines.start(number, *one) for number, one in enumerate(asked)]
    (alone,) = sharded(tmp_path, 1, only=cases, dtype="float32")
    for one in both:
        told = one.communicate(timeout=200)[1]
        assert one.returncode == 0, told
    assert not outputs[1].exists()
    assert differing(alone, load_file(outputs[0])) == []


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_killed_on_one_machine_ends_the_run_on_the_other(
    victim: int, machines: Machines, tmp_path: Path
) -> None:
    asked = ["-m", "smofi", "run", *QUICK, "--rounds", "100000", "--output", str(tmp_path / "run")]
    both = [machines.start(number, *asked) for number in range(2)]
    until = time.monotonic() + 100
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and len(accuracies(tmp_path / "run")) >= 6):
        assert time.monotonic() < until, "the run does not get going"
        assert [one.poll() for one in both] == [None, None], [one.communicate()[1] for one in both]
        time.sleep(0.1)
    workers = [worker for one in both for worker in workers_of(one.pid)]
    assert len(workers) == 2
    os.kill(workers[victim], signal.SIGKILL)
    assert gone(workers[1 - victim], seconds=10)
    told = [one.communicate(timeout=60)[1] for one in both]
    other = f"error: worker {2 - victim} of 2 lost contact with another worker, which has ended or was killed"
    assert other in told[1 - victim]
    assert all(one.returncode != 0 for one in both)


def test_the_network_that_leads_to_an_address_is_found(machines: Machines) -> None:
    asked = [*ADDRESSES, "127.0.0.1", "10.99.0.1", "no such host", "::1"]
    load = (
        "import runpy; ask = runpy.run_path('smofi/engine/processes/network.py')['interface_towards']"  # without torch
    )
    program = [sys.executable, "-c", f"{load}; print([ask(one) for one in {asked}])"]
    there = ["ip", "netns", "exec", machines.names[0], *program]
    found = subprocess.run(there, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.strip() == str([machines.cables[0], machines.cables[0], None, None, None, None])
    assert interface_towards(ADDRESSES[0]) != machines.cables[0]
