"""Momentum fusion with losses, against its formula: m̄ = Σ_j (age_j + 1)^alpha m_j / |J|."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import Branch
from smofi.engine.remote.fusion import LossyFusion
from smofi.flat import Layout

STEPS, WIDTH = [3, 5, 2, 5], 4
ALPHA = -0.5


def a_fusion(kind: type[Fusion], cuts: list[Cut] | None = None) -> Any:
    layout = Layout.of(nn.Sequential(*(nn.Linear(1, 1) for _ in range(3))).double())
    plan = RoundPlan(
        seed=0,
        round=0,
        lr=0.1,
        clients=[0, 1, 2, 3],
        batch_sizes=[1] * 4,
        epoch_steps=STEPS,
        steps=STEPS,
        shares=[0.25] * 4,
        planned_steps=STEPS,
        planned_shares=[0.25] * 4,
        cuts=cuts or [Cut(1, 3, 3)] * 4,
    )
    like = torch.empty(1, 0, dtype=torch.float64)
    return kind(lambda age: (age + 1) ** ALPHA, plan, layout, like, Branch.of(STEPS, 1, 0))


def momentum_of(row: int, step: int) -> Tensor:
    draw = torch.Generator().manual_seed(10 * row + step)
    return torch.randn(WIDTH, dtype=torch.float64, generator=draw)


def run(fusion: Any, lost: dict[int, int], late: bool = False, order: int = 1) -> list[Tensor]:
    """All ticks; a client in `lost` takes so many steps. It is lost in the tick that it does not take part in, or, if
    that is known `late`, after its last step."""
    fused = []
    for tick in range(max(STEPS)):
        gone = {row for row, steps in lost.items() if tick > steps or (late and tick == steps)}
        active = [row for row, steps in enumerate(STEPS) if tick < steps and row not in gone]
        for row in fusion.begin(active)[::order]:
            if lost.get(row) == tick:
                fusion.lose(row)
                continue
            momentum = fusion.momentum(row)
            momentum.moments[0][0].copy_(momentum_of(row, tick))
            fusion.add(row)
            if late and lost.get(row) == tick + 1:
                fusion.lose(row)
        fusion.fuse(lambda sums: None)
        fused.append(fusion.prior[0].clone())
    return fused


def expected(lost: dict[int, int]) -> list[Tensor]:
    found = []
    for tick in range(max(STEPS)):
        total = torch.zeros(WIDTH, dtype=torch.float64)
        for row, steps in enumerate(STEPS):
            if last := min(lost.get(row, steps), tick + 1):  # zero of one that never took a step
                total += (tick - (last - 1) + 1) ** ALPHA * momentum_of(row, last - 1)
        found.append(total / len(STEPS))
    return found


LOSSES: list[dict[int, int]] = [
    {0: 0}, {0: 1}, {1: 4}, {1: 2, 3: 2}, {0: 0, 1: 1, 3: 2}, {2: 1, 1: 0},
]  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("lost", LOSSES, ids=str)
def test_the_formula(lost: dict[int, int], order: int) -> None:
    for got, wanted in zip(run(a_fusion(LossyFusion), lost, order=order), expected(lost), strict=True):
        assert torch.allclose(got, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("lost", [one for one in LOSSES if 0 not in one.values()], ids=str)
def test_known_after_its_step_or_before_the_next(lost: dict[int, int]) -> None:
    for got, wanted in zip(run(a_fusion(LossyFusion), lost, late=True), expected(lost), strict=True):
        assert torch.allclose(got, wanted, atol=1e-12, rtol=0)


def test_lost_before_anything_begins() -> None:
    fusion = a_fusion(LossyFusion)
    fusion.lose(1)
    fusion.begin([0, 2, 3])


@pytest.mark.parametrize("order", [1, -1])
def test_without_losses_the_bits_are_those_of_a_simulation(order: int) -> None:
    for got, wanted in zip(run(a_fusion(LossyFusion), {}, order=order), run(a_fusion(Fusion), {}), strict=True):
        assert torch.equal(got, wanted)


def test_lost_after_it_finished_changes_nothing() -> None:
    fusion = a_fusion(LossyFusion)
    begin = fusion.begin

    def losing(rows: list[int]) -> Any:
        if fusion.step == 4:
            fusion.lose(2)
        return begin(rows)

    fusion.begin = losing
    assert all(map(torch.equal, run(fusion, {}), run(a_fusion(Fusion), {})))
