"""Ten thousand clients, a thousand a round: it runs, and memory does not grow from round to round."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import torch
from torch import nn

import smofi
from smofi.engine.events import Callback

CLIENTS, EACH = 10_000, 4


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def thousands(method: str, executor: str, callback: Callback | None = None) -> smofi.Session:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(CLIENTS, EACH, 8, generator=draw)
    targets = torch.randint(3, (CLIENTS, EACH), generator=draw)
    model = nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 16)), nn.Linear(16, 3))
    settings = {"participation": 0.1, "batch_size": 2, "local_epochs": 1, "rounds": 200, "eval_every": 50}
    clients = list(zip(inputs, targets, strict=True))
    how = {"method": method, "executor": executor, "callback": callback}
    return smofi.prepare(model, clients, clients[0], **how, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["smofi", pytest.param("fedavg", marks=pytest.mark.slow)])
def test_a_thousand_clients_a_round(method: str) -> None:
    session = thousands(method, "vmap")
    record = session.run.one_round(session.run.planner.plan(0))
    assert len(record.selected) == 1000
    assert sum(record.steps) == 2000
    # those that never meet share rows: a whole subtree of 1000 / 16 at a time, for 1000 / 8 are more than 64
    assert session.run.simulation.room.count == (1000 if method == "smofi" else 63)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads memory from /proc")
@pytest.mark.parametrize(("method", "executor"), [("smofi", "vmap"), ("fedavg", "loop"), ("fedavg", "vmap")])
def test_memory_does_not_grow_over_two_hundred_rounds(method: str, executor: str) -> None:
    session, seen = thousands(method, executor), []
    session.run.emit = lambda event: (
        seen.append(resident()) if isinstance(event, smofi.engine.events.RoundDone) else None
    )
    session.train()
    assert len(seen) == 200
    # what a round leaves behind is its record: who took part, and how many steps
    assert seen[-1] - seen[20] < 10_000_000
