"""A server that is killed in the middle of a round and goes on: the numbers are those of a run without accidents."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from smofi.runs import RunFolder
from support.deployed import PATIENT, SOON, Clients, Serve, facts_of, simulated, small, tensors
from support.ends import eventually
from support.ports import free_port


def accident(folder: Path, kills: int, **changes: object) -> None:
    config = small(clients=4, participation=0.75, rounds=3 * kills + 3, **changes)
    port = free_port()
    request = {"folder": folder, "listen": f"127.0.0.1:{port}", "options": {}}
    settings = config.model_dump(mode="json")
    with Clients(port, 4) as processes:
        for number in range(kills):
            processes.begin("serve", "server", config=settings, resume=number > 0, **request)
            assert eventually(lambda least=3 * number + 1: rounds_in(folder) >= least, 120), processes.said("server")
            processes.kill("server")
            assert rounds_in(folder) < config.rounds, "it was over before it was killed"
        processes.begin("serve", "server", config=settings, resume=True, **request)
        assert processes.ended("server") == 0
        assert processes.all_ended() == [0] * 4
        assert "the server was restarted" in processes.said("site-0")
    (session,) = simulated(config)
    saved, wanted = RunFolder(folder).model(), tensors(session.result().model)
    for name, tensor in wanted.items():
        assert torch.equal(saved[name], tensor), name
    assert [facts_of(one) for one in RunFolder(folder).records()] == [
        facts_of(vars(one)) for one in session.run.history
    ]


def rounds_in(folder: Path) -> int:
    return len((folder / "metrics.jsonl").read_text().splitlines()) if (folder / "metrics.jsonl").exists() else 0


def test_killed_in_a_round(tmp_path: Path) -> None:
    accident(tmp_path / "run", 1)


def test_killed_before_it_said_that_the_run_is_over(tmp_path: Path) -> None:
    """Its clients try to reach it, and would do so for ever: resumed, it has nothing to do but to tell them."""
    config, folder, port = small(clients=2, participation=1.0, rounds=1), tmp_path / "run", free_port()
    with Clients(port, 2) as clients, Serve(config, folder, port) as server:
        server.result()
        assert clients.all_ended() == [0, 0]
    before = (folder / "metrics.jsonl").read_bytes()
    with Clients(port, 2) as clients:
        assert eventually(lambda: all("nothing listens" in clients.said(f"site-{n}") for n in range(2)), SOON)
        with Serve(config, folder, port, resume=True, times=PATIENT) as server:
            server.result()
        assert clients.all_ended() == [0, 0]
    assert (folder / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fednag", "sflv2", "mergesfl"])
def test_killed_again_and_again(tmp_path: Path, method: str) -> None:
    accident(tmp_path / "run", 3, method=method)
