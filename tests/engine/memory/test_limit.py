"""A limit on memory: the arithmetic in the refusal, the number at once that fits, and what a run really takes."""

from __future__ import annotations

import gc
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from smofi.engine.cohort.execution import Execution
from smofi.engine.processes.workers import DistributedWorkers

WIDE = 1500  # the model has 4.5 million parameters, 18 MB


def client(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, WIDE), torch.randint(3, (size,))


def prepared(memory_limit: int | str, **changes: Any) -> Execution:
    gc.collect()  # what earlier ones took
    model = nn.Sequential(nn.Linear(WIDE, WIDE), nn.Sequential(nn.ReLU(), nn.Linear(WIDE, WIDE)), nn.Linear(WIDE, 3))
    settings = {"participation": 1.0, "batch_size": 4, "local_epochs": 1, "executor": "vmap", "method": "smofi"}
    session = smofi.prepare(model, [client(8)] * 6, memory_limit=memory_limit, **settings | changes)
    return session.run.simulation.execution


def least(**changes: Any) -> int:
    """The megabytes that a refusal says are needed."""
    with pytest.raises(smofi.InputError) as refused:
        prepared("1MB", **changes)
    found = re.search(r"at least ([\d,]+) MB", str(refused.value))
    assert found
    return int(found[1].replace(",", ""))


def test_what_does_not_fit_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(smofi.InputError) as refused:
        prepared("150MB")
    sentence = str(refused.value)
    assert sentence.startswith("memory_limit='150MB' is not accepted: expected at least ")
    assert "rows: weights 6 x 4,507,503 x 4 bytes" in sentence
    assert "MB that a process already uses" in sentence


@pytest.mark.slow
def test_as_many_at_once_as_fit() -> None:
    needed = least()  # one more at once takes 36 MB; what the process itself takes varies, too
    some, everyone = (prepared(f"{needed + more}MB").at_once for more in (80, 1000))
    assert 1 <= some < everyone == 6


def test_clients_that_never_meet_need_one_row() -> None:
    rows = 5 * 18  # and as much for their momenta
    assert least(method="fedavg", executor="loop") < least(executor="loop") - rows


def test_workers_share_the_limit() -> None:
    with pytest.raises(smofi.InputError, match=r"= 2 workers x [\d,]+ MB that a process already uses \+ 2 workers x"):
        prepared("200MB", workers=DistributedWorkers(0, 2, "gloo"))
