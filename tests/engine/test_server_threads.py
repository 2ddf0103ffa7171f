"""A single server model computes with threads of its own: they reach its passes and nothing else, wherever it runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from support.often import often

WIDE = 1100
"""Times 32 samples this is more than torch computes in one thread, if it may use several."""

FIRST_PROCESS = os.getpid()
SEEN = torch.zeros(2, 3, 2, dtype=torch.int64).share_memory_()
"""The most threads seen in the first process and in another; in each block; forward and backward."""


class Seeing(torch.autograd.Function):
    """Nothing happens, but it is noted how many threads there are."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, block: int) -> Tensor:
        ctx.block = block
        note(block, 0)
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        note(ctx.block, 1)
        return gradient, None


def note(block: int, way: int) -> None:
    place = (int(os.getpid() != FIRST_PROCESS), block, way)
    SEEN[place] = max(int(SEEN[place]), torch.get_num_threads())


class Watched(nn.Module):
    """A linear layer and a ReLU, watched."""

    def __init__(self, block: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.block, self.linear = block, nn.Linear(inputs, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = Seeing.apply(self.linear(inputs).relu(), self.block)
        return output


def model(width: int = 8) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Watched(0, 4, 8), Watched(1, 8, width), Watched(2, width, 3)).double()


def clients() -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    sizes = (64, 40, 33)
    return [
        (torch.randn(n, 4, generator=draw, dtype=torch.float64), torch.randint(3, (n,), generator=draw)) for n in sizes
    ]


HOW: dict[str, Any] = {"rounds": 2, "participation": 1.0, "local_epochs": 1, "batch_size": 32, "cut": 0}


def train(processes: int = 1, width: int = 8, **arguments: Any) -> smofi.Result:
    """What the first of so many forked processes gets; none of the others has started a thread."""
    SEEN.zero_()
    if processes == 1:
        return smofi.train(model(width), clients(), **HOW | arguments)
    workers = smofi.ForkedWorkers(processes)
    workers.fork()
    if workers.rank > 0:
        signal.alarm(60)
        code = 1
        try:
            smofi.train(model(width), clients(), workers=workers, **HOW | arguments)
            code = 0 if threads_of_this_process() == 1 else 3
        finally:
            os._exit(code)
    try:
        result = smofi.train(model(width), clients(), workers=workers, **HOW | arguments)
        codes = [os.waitstatus_to_exitcode(os.waitpid(workers.children.pop(), 0)[1]) for _ in range(1, processes)]
        assert codes == [0] * (processes - 1)
        return result
    finally:
        workers.end()


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def weights(result: smofi.Result) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in result.model.state_dict().values()])


# ---------------------------------------------------------------------------------------------------------------- reach

METHODS = ["mergesfl", "sflv2", "sflv2(turns='step')", "clip(max_norm=0.5)+sflv2('step')"]


@pytest.mark.parametrize(
    ("method", "cut", "processes"),
    often(
        lambda *one: one in [("mergesfl", 0, 2), ("mergesfl", (0, 1), 1), ("sflv2", 0, 2)],
        METHODS,
        [0, (0, 1)],
        [1, 2],
    ),
)
def test_threads_reach_the_server_and_nothing_else_and_change_no_number(
    method: str, cut: int | tuple[int, int], processes: int
) -> None:
    before = weights(train(processes, method=method, cut=cut))
    assert SEEN[0].eq(1).all()
    after = weights(train(processes, method=method, cut=cut, server_threads=2))
    back = 2 if cut == 0 else 1  # the last block is the client's in the U shape
    assert SEEN[0].tolist() == [[1, 1], [2, 2], [back, back]]
    assert int(SEEN[1].max()) == processes - 1  # nothing is seen where there is no other process
    assert torch.get_num_threads() == 1
    assert float((after - before).abs().max()) < 1e-10


def test_they_are_started_after_the_fork_and_in_the_first_process_only() -> None:
    """That the others start none is seen by every run with several processes here. The same threads, the same bits."""
    SEEN.zero_()
    wide: dict[str, Any] = {"method": "mergesfl", "server_threads": 2, "memory_limit": "8GB"}
    smofi.prepare(model(WIDE), clients(), **HOW | wide)
    assert int(SEEN[0].max()) == 1  # what is tried out before workers are forked
    found = []
    for _ in range(2):  # the second time, in a process with idle threads
        found.append(weights(train(2, WIDE, **wide)))
        assert int(SEEN[0].max()) == 2
        assert threads_of_this_process() > 1
    assert found[0].equal(found[1])


def test_evaluation_has_one_thread() -> None:
    seen: list[int] = []

    def top1(outputs: Tensor, targets: Tensor) -> float:
        seen.append(torch.get_num_threads())
        return 0.0

    train(method="mergesfl", server_threads=2, test=clients()[0], metrics=[top1])
    assert set(seen) == {1}


def test_an_error_in_the_server_leaves_one_thread() -> None:
    def failing(outputs: Tensor, targets: Tensor) -> Tensor:
        if torch.get_num_threads() > 1:
            raise ValueError("in threads")
        return nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(smofi.SmofiError, match="failed in round 1, step 1: in threads"):
        train(method="mergesfl", server_threads=2, loss=failing)
    assert torch.get_num_threads() == 1


# -------------------------------------------------------------------------------------------------- where it is no use


@pytest.mark.parametrize("method", ["fedavg", "smofi", "mergesfl"])
def test_a_method_without_a_single_server_model_says_that_nothing_changes(method: str) -> None:
    events: list[smofi.Event] = []
    train(method=method, server_threads=2, callback=events.append, wire="bf16")
    said = [event.message for event in events if isinstance(event, smofi.Warned)]
    none = f"server_threads changes nothing for {method}: it has no single server model"
    assert said == ([] if method == "mergesfl" else [none])
    assert int(SEEN[0].max()) == (2 if method == "mergesfl" else 1)
