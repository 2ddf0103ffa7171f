"""Memory: what a limit refuses, that a run keeps what was foreseen and frees it again, and that it does not grow."""

from __future__ import annotations

import gc
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import smofi
from support.processes import tensors_in_memory

WIDE = 700  # the model has a million parameters, 4 MB
CLIENTS = 6
SETTINGS: dict[str, Any] = {"participation": 1.0, "batch_size": 4, "local_epochs": 1, "rounds": 2, "cut": 0}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDE, WIDE), nn.Sequential(nn.ReLU(), nn.Linear(WIDE, WIDE)), nn.Linear(WIDE, 3))


SIZE = sum(p.numel() for p in network().parameters())
ON_CLIENT = sum(p.numel() for p in network()[0].parameters())
ON_SERVER = SIZE - ON_CLIENT
DATA = [(torch.randn(8, WIDE), torch.arange(8) % 3)] * CLIENTS


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No cycle of references is collected meanwhile: what is freed is freed at once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


P, C, S = SIZE, ON_CLIENT, ON_SERVER
KEPT: dict[str, tuple[str, str, int]] = {
    # rows of weights and of client momentum for each; of the server's momentum the fused one, and one for each of the
    # three levels of the tree, and one
    "smofi": ("smofi", "loop", CLIENTS * P + CLIENTS * C + 5 * S),
    "smofi at once": ("smofi", "vmap", CLIENTS * 2 * P + CLIENTS * C + (CLIENTS + 5) * S),
    # clients that never meet run one after the other: one row and one momentum, and sums that wait for each other
    "fedavg": ("fedavg", "loop", P + P + 3 * P),
    # the client part of each and the server part once, for weights and for momentum
    "sflv2": ("sflv2", "loop", 2 * (CLIENTS * C + S)),
}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("case", KEPT)
def test_a_run_keeps_what_it_must_and_frees_it(case: str) -> None:
    """Besides: the global weights and what the method remembers, the start of the round, a gradient and the sum, and
    copies of the model for the user, for passes and for the evaluation."""
    method, executor, rows = KEPT[case]
    before, seen, after = tensors_in_memory(), list[int](), list[int]()

    def look(event: smofi.Event) -> None:
        if isinstance(event, smofi.TickDone):
            seen.append(tensors_in_memory() - before)
        elif isinstance(event, smofi.RoundDone):
            after.append(tensors_in_memory() - before)

    session = smofi.prepare(
        network(),
        DATA,
        method=method,
        executor=executor,
        optimizer="sgd(lr=0.01, momentum=0.9)",
        callback=look,
        **SETTINGS,
    )
    prepared = tensors_in_memory() - before
    assert prepared < 4 * 8 * SIZE, "trials leave something behind"
    session.train()
    assert 4 * rows < max(seen) < 4 * (rows + 9 * SIZE)
    assert max(after) < max(seen) + 4 * SIZE
    assert after[1] <= after[0]
    del session
    assert tensors_in_memory() - before < 4 * SIZE / 2, "something is left when nothing needs it"


# ------------------------------------------------------------------------------------------------------------ a limit


def least(**changes: Any) -> int:
    """The megabytes that a refusal says are needed."""
    gc.collect()
    how = {"executor": "vmap", "method": "smofi", "memory_limit": "1MB"}
    with pytest.raises(smofi.InputError) as refused:
        smofi.prepare(network(), DATA, **SETTINGS | how | changes)
    sentence = str(refused.value)
    assert sentence.startswith("memory_limit='1MB' is not accepted: expected at least ")
    assert "MB that a process already uses" in sentence
    rows = "rows: weights 6 x {:,} x 4 bytes" if changes.get("method") != "fedavg" else "rows: weights 1 x {:,} x 4"
    assert rows.format(SIZE) in sentence
    found = re.search(r"at least ([\d,]+) MB", sentence)
    assert found
    return int(found[1].replace(",", ""))


def test_what_does_not_fit_is_refused_with_the_arithmetic() -> None:
    rows = 5 * 4 * SIZE / 1e6  # which clients that never meet do not have
    assert least(method="fedavg", executor="loop") < least(executor="loop") - rows
    workers = smofi.ForkedWorkers(2)
    with pytest.raises(smofi.InputError, match=r"MB that a process already uses \+ 2 workers x"):
        smofi.prepare(network(), DATA, memory_limit="1MB", workers=workers, **SETTINGS)
    workers.end()


@pytest.mark.slow
def test_as_many_at_once_as_fit() -> None:
    wide = nn.Sequential(
        nn.Linear(WIDE, 4 * WIDE), nn.Sequential(nn.ReLU(), nn.Linear(4 * WIDE, WIDE)), nn.Linear(WIDE, 3)
    )
    with pytest.raises(smofi.InputError) as refused:
        smofi.prepare(wide, DATA, memory_limit="1MB", executor="vmap", **SETTINGS)
    found = re.search(r"at least ([\d,]+) MB", str(refused.value))
    assert found
    computed: list[str] = []
    listen = lambda event: computed.append(event.computed) if isinstance(event, smofi.RunStarted) else None  # noqa: E731
    for more in (80, 1000):  # one more at once takes 32 MB; what the process itself takes varies, too
        limit = f"{int(found[1].replace(',', '')) + more}MB"
        smofi.train(wide, DATA, memory_limit=limit, executor="vmap", callback=listen, **SETTINGS)
    assert computed[1] == "up to 6 clients at once"
    assert computed[0] != computed[1]


# ------------------------------------------------------------------------------------------------- thousands of clients


@pytest.mark.slow
@pytest.mark.parametrize(("method", "executor"), [("smofi", "vmap"), ("fedavg", "loop"), ("fedavg", "vmap")])
def test_memory_does_not_grow_over_two_hundred_rounds_of_a_thousand_clients(method: str, executor: str) -> None:
    draw = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(10_000, 4, 8, generator=draw), torch.randint(3, (10_000, 4), generator=draw)
    model = nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 16)), nn.Linear(16, 3))
    clients, seen = list(zip(inputs, targets, strict=True)), list[int]()

    def look(event: smofi.Event) -> None:
        if isinstance(event, smofi.RoundDone):
            seen.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())

    result = smofi.train(
        model, clients, clients[0], method=method, executor=executor, callback=look, participation=0.1, batch_size=2,
        local_epochs=1, rounds=200, eval_every=50,
    )  # fmt: skip
    assert {len(record.selected) for record in result.history} == {1000}
    # what a round leaves behind is its record: who took part, and how many steps
    assert seen[-1] - seen[20] < 10_000_000
