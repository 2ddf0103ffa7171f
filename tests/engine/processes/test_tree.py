"""What a round adds up over its rows, against a plain definition of the tree: to the bit, in single precision.

Models here only multiply, and batches have one sample, so that a gradient is the sample. Momentum and learning rate are
powers of two. Nothing but the sums is rounded in a way that one would have to know.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import smofi
from smofi.data import batch_order
from smofi.engine.processes.tree import Branch, deal
from smofi.engine.processes.workers import OneWorker, Workers
from support.fold import fold
from support.processes import differing, in_each

WIDTH, SEED = 37, 5
BETA, LR = 0.5, 0.25

# ----------------------------------------------------------------------------------------------------- the definition


def places(steps: Sequence[int]) -> list[int]:
    """The rows on the strip: those with the most steps first."""
    return sorted(range(len(steps)), key=lambda row: (-steps[row], row))


def total(steps: Sequence[int], values: Sequence[Tensor], rows: Collection[int]) -> Tensor:
    """The sum of what some of the rows have."""
    found = fold([values[row] if row in rows else None for row in places(steps)])
    assert found is not None
    return found


def test_the_definition_on_seven_rows() -> None:
    """((0 + nothing) + (3 + 4)) + ((1 + 6) + (2 + 5)), with numbers that any other order would round otherwise."""
    a, b, c, d, e, f, g = torch.randn(7, 100, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.equal(
        total([7, 6, 5, 4, 3, 2, 1], [a, b, c, d, e, f, g], range(7)), (a + (d + e)) + ((b + g) + (c + f))
    )
    assert not torch.equal(a + b + c + d + e + f + g, (a + (d + e)) + ((b + g) + (c + f)))


# ------------------------------------------------------------------------------------------------- who adds which rows


@given(steps=st.lists(st.integers(1, 5), min_size=1, max_size=40), power=st.integers(0, 5))
def test_workers_have_whole_branches_of_it(steps: list[int], power: int) -> None:
    """Fold the strip until there are as many places as workers: what lies on a place is what its worker computes."""
    strip: list[list[int]] = [[row] for row in places(steps)]
    workers = 2**power
    size = workers
    while size < len(strip):
        size *= 2
    strip += [[] for _ in range(size - len(strip))]
    while len(strip) > workers:
        strip = [strip[place] + strip[-1 - place] for place in range(len(strip) // 2)]
    dealt = deal(steps, workers)
    assert [sorted(rows) for rows in dealt] == [sorted(rows) for rows in strip]
    for step in range(max(steps)):
        active = [sum(step < steps[row] for row in rows) for rows in dealt]
        assert max(active) - min(active) <= 1


@given(data=st.data(), count=st.integers(1, 40), power=st.integers(0, 4))
def test_a_branch_joins_its_rows_as_defined(data: st.DataObject, count: int, power: int) -> None:
    """Any of the rows, with any number of workers, whose sums are folded in turn."""
    steps = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    chosen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    values = torch.randn(count, 3, generator=torch.Generator().manual_seed(count)) * 1000
    branches = [Branch.of(steps, 2**power, rank) for rank in range(2**power)]
    sums = [by_stack(one, [row for row in one.rows if row in chosen], values) for one in branches]
    found = fold(sums)
    assert found is not None
    assert torch.equal(found, total(steps, list(values), chosen))


def by_stack(branch: Branch, rows: Sequence[int], values: Tensor) -> Tensor | None:
    stack: list[Tensor] = []
    for row, joins in zip(rows, branch.joins(rows), strict=True):
        stack.append(values[row])
        for _ in range(joins):
            last = stack.pop()
            stack[-1] = stack[-1] + last
    assert len(stack) <= 1
    return stack[0] if stack else None


@pytest.mark.parametrize("size", [2, 4, 8])
def test_workers_are_folded_as_defined(size: int, tmp_path: Path) -> None:
    """Also the sign of a zero, and what is not a number, come through."""
    draw = torch.Generator().manual_seed(size)
    brought = torch.randn(size, 1000, generator=draw) * 10.0 ** torch.randint(-6, 7, (size, 1000), generator=draw)
    brought[:, 0] = -0.0
    brought[:, 1], brought[-1, 1] = -0.0, torch.inf
    brought[:, 2], brought[0, 2] = -0.0, 0.0
    expected = fold(list(brought))
    assert expected is not None
    for found in in_each(size, tmp_path, lambda workers: {"sum": workers.sum(brought[workers.rank].clone())}):
        assert differing({"sum": expected}, found) == []
        assert found["sum"][0].signbit()


# ------------------------------------------------------------------------------------------------ what a round adds up


class Scale(nn.Module):
    """Every number of a sample times a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, WIDTH))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.weight


def network() -> nn.Sequential:
    """The client's part has nothing to train."""
    return nn.Sequential(nn.Identity(), Scale(), nn.Identity())


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is one, and which is large, so that it does not seem to diverge."""
    return 1000 + outputs.sum()


def clients(steps: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(len(steps))
    return [(torch.randn(count, WIDTH, generator=draw), torch.zeros(count, dtype=torch.int64)) for count in steps]


def gradients(data: Sequence[tuple[Tensor, Tensor]]) -> list[list[Tensor]]:
    """The gradient of every step of every client, in a round that all take part in."""
    orders = [batch_order(len(x), 1, len(x), seed=SEED, round=0, client=client) for client, (x, _) in enumerate(data)]
    return [[x[int(rows[0])] for rows in order] for (x, _), order in zip(data, orders, strict=True)]


def trained(steps: Sequence[int], method: str, executor: str, workers: Workers) -> dict[str, Tensor]:
    session = smofi.prepare(
        network(), clients(steps), method=method, optimizer=smofi.sgd(lr=LR, momentum=BETA), loss=summed, cut=0,
        rounds=1, participation=1.0, local_epochs=1, batch_size=1, seed=SEED, executor=executor, workers=workers,
    )  # fmt: skip
    session.train()
    return {"weights": session.run.state.weights, "carried": session.run.state.carried}


def mean(steps: Sequence[int], rows: Sequence[Tensor]) -> Tensor:
    """W̄ = sum_j p_j W_j"""
    shares = [count / sum(steps) for count in steps]
    return total(steps, [share * row for share, row in zip(shares, rows, strict=True)], range(len(steps)))


def by_hand(steps: Sequence[int], method: str) -> dict[str, Tensor]:
    """A round of FedNAG, of SMoFi where all momenta count alike, or of SFLV1."""
    count, g = len(steps), gradients(clients(steps))
    start = network()[1].weight.detach()
    weights, momenta, finished = [start] * count, [torch.zeros(WIDTH)] * count, []
    for step in range(max(steps)):
        active = [row for row in range(count) if step < steps[row]]
        for row in active:
            momenta[row] = BETA * momenta[row] + g[row][step]
            if method == "fednag":  # W_j -= eta (g_j + beta m_j)
                weights[row] = weights[row] - LR * g[row][step] - LR * BETA * momenta[row]
            else:  # W_j -= eta m_j
                weights[row] = weights[row] - LR * momenta[row]
        going_on = [row for row in active if step + 1 < steps[row]]
        if method == SMOFI and going_on:
            # those that go on, and then those that finished together, the first ones first
            if len(going_on) < len(active):
                finished.append(total(steps, momenta, [row for row in active if row not in going_on]))
            momenta = [sum(finished, total(steps, momenta, going_on)) / count] * count
        if method == "sflv1":
            shares = torch.tensor([size / sum(steps) for size in steps])
            shares = shares / shares[active].sum()
            average = total(steps, [share * row for share, row in zip(shares, weights, strict=True)], active)
            weights, momenta = [average] * count, [torch.zeros(WIDTH)] * count
    carried = [mean(steps, momenta)] if method == "fednag" else []
    return {"weights": mean(steps, weights), "carried": torch.stack(carried) if carried else torch.empty(0, WIDTH)}


SMOFI = "smofi(alpha=0, global_momentum=0)"
UNEQUAL = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.mark.parametrize(
    ("method", "executor"),
    [
        ("fednag", "loop"),
        (SMOFI, "vmap"),
        ("sflv1", "loop"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("fednag", "vmap"), (SMOFI, "loop"), ("sflv1", "vmap"))
        ),
    ],
)
def test_a_round_adds_as_defined(method: str, executor: str, tmp_path: Path) -> None:
    for steps in ([2, 2, 2, 2, 2], UNEQUAL):
        expected = by_hand(steps, method)
        for size in (1, 2, 4):
            found = in_each(size, tmp_path, partial(trained, steps, method, executor))
            assert [differing(expected, one) for one in found] == [[]] * size


@given(steps=st.lists(st.integers(1, 6), min_size=2, max_size=24))
@settings(max_examples=10)
def test_any_round_adds_as_defined(steps: list[int]) -> None:
    for method in ("fednag", SMOFI, "sflv1"):
        for executor in ("loop", "vmap"):
            assert differing(by_hand(steps, method), trained(steps, method, executor, OneWorker())) == []
