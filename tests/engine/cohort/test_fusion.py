"""Fusion against its formula, m̄ = Σ_j (age_j + 1)^alpha m_j / |J|, from a plain table of all momenta."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from smofi.cut import Cut, regions
from smofi.engine.cohort.fusion import Fusion
from smofi.flat import Layout

BLOCKS = 5
LIKE = torch.zeros(1, dtype=torch.float64)


# Five blocks of 1, 2, 3, 4 and 5 columns.
LAYOUT = Layout.of(nn.Sequential(*(nn.Linear(size, 1, bias=False) for size in range(1, BLOCKS + 1))))


def power(alpha: float) -> Callable[[int], float]:
    return lambda age: float((age + 1) ** alpha)


def same(total: Tensor) -> Tensor:
    return total


def contribute(fusion: Fusion, cut: Cut, momentum: Tensor, *, finished: bool) -> None:
    """What a client's step does: write its momentum where the fusion wants it, and add it to the sum."""
    columns = cut.server(LAYOUT)
    for target, total, moment in zip(
        fusion.view(fusion.latest, columns), fusion.view(fusion.total, columns), momentum, strict=True
    ):
        target[0].copy_(moment[columns])
        total += moment[columns]
    if finished:
        fusion.keep(columns, 0)


def fused(fusion: Fusion, columns: slice) -> Tensor:
    return torch.stack(fusion.view(fusion.prior, columns))


def test_two_clients_by_hand() -> None:
    """Client 0 stops after its first step: its momentum 6 weighs 1, then 1/2, then 1/3 with alpha = -1."""
    cut = Cut(4, 5, BLOCKS)  # the last five columns
    fusion = Fusion(power(-1), regions([cut, cut]), LAYOUT, moments=1, like=LIKE)
    columns, ones = cut.server(LAYOUT), torch.ones(1, 15, dtype=torch.float64)
    assert fused(fusion, columns).tolist() == [[0.0] * 5]

    contribute(fusion, cut, 6 * ones, finished=True)
    contribute(fusion, cut, 2 * ones, finished=False)
    fusion.fuse(same)
    assert fused(fusion, columns).tolist() == [[(6 + 2) / 2] * 5]

    contribute(fusion, cut, 10 * ones, finished=False)
    fusion.fuse(same)
    assert fused(fusion, columns).tolist() == [[(6 / 2 + 10) / 2] * 5]

    contribute(fusion, cut, -4 * ones, finished=True)
    fusion.fuse(same)
    assert fused(fusion, columns).tolist() == [[(6 / 3 - 4) / 2] * 5]


def test_a_client_that_finishes_first_counts_once_in_its_last_step() -> None:
    cut = Cut(1, 5, BLOCKS)
    fusion = Fusion(power(-0.5), regions([cut]), LAYOUT, moments=1, like=LIKE)
    contribute(fusion, cut, torch.full((1, 15), 3.0, dtype=torch.float64), finished=True)
    fusion.fuse(same)
    assert fused(fusion, cut.server(LAYOUT)).unique().tolist() == [3.0]


def test_a_column_is_divided_by_the_number_of_clients_that_have_it_on_the_server() -> None:
    """Blocks 1 to 4 hold 2, 3, 4 and 5 columns; their holders are client 0, both, both, client 1."""
    cuts = [Cut(1, 4, BLOCKS), Cut(2, 5, BLOCKS)]
    fusion = Fusion(power(-1), regions(cuts), LAYOUT, moments=1, like=LIKE)
    contribute(fusion, cuts[0], torch.full((1, 15), 4.0, dtype=torch.float64), finished=True)
    contribute(fusion, cuts[1], torch.full((1, 15), 10.0, dtype=torch.float64), finished=False)
    fusion.fuse(same)
    everything = LAYOUT.columns(1, 5)
    assert fused(fusion, everything).tolist() == [[4.0] * 2 + [7.0] * 3 + [7.0] * 4 + [10.0] * 5]
    contribute(fusion, cuts[1], torch.full((1, 15), 20.0, dtype=torch.float64), finished=False)
    fusion.fuse(same)
    assert fused(fusion, everything).tolist() == [[2.0] * 2 + [11.0] * 3 + [11.0] * 4 + [20.0] * 5]


cuts_drawn = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda p: Cut(min(p), max(p) + 1, BLOCKS))
clients_drawn = st.lists(st.tuples(cuts_drawn, st.integers(1, 6)), min_size=1, max_size=5)


def by_table(
    cuts: Sequence[Cut],
    steps: Sequence[int],
    momenta: Sequence[Sequence[Tensor]],
    tau: int,
    weight: Callable[[int], float],
) -> tuple[Tensor, Tensor]:
    """m̄ after step tau from every client's last momentum, column by column, and which columns anyone holds."""
    total, holders = torch.zeros_like(momenta[0][0]), torch.zeros(15, dtype=torch.float64)
    for j, cut in enumerate(cuts):
        last = min(tau, steps[j] - 1)
        columns = cut.server(LAYOUT)
        total[:, columns] += weight(tau - last) * momenta[j][last][:, columns]
        holders[columns] += 1
    return total / holders.clamp(min=1)


@settings(max_examples=40)
@given(clients=clients_drawn, alpha=st.floats(-10, 0), moments=st.integers(1, 2), seed=st.integers(0, 99))
def test_any_cuts_and_any_numbers_of_steps(
    clients: list[tuple[Cut, int]], alpha: float, moments: int, seed: int
) -> None:
    cuts, steps = [cut for cut, _ in clients], [count for _, count in clients]
    draw = torch.Generator().manual_seed(seed)
    momenta = [torch.randn((count, moments, 15), generator=draw, dtype=torch.float64) for count in steps]
    fusion = Fusion(power(alpha), regions(cuts), LAYOUT, moments, LIKE)
    for tau in range(max(steps)):
        for j, cut in enumerate(cuts):
            if tau < steps[j]:
                contribute(fusion, cut, momenta[j][tau], finished=tau == steps[j] - 1)
        fusion.fuse(same)
        expected = by_table(cuts, steps, momenta, tau, power(alpha))
        for cut in cuts:
            columns = cut.server(LAYOUT)
            assert (fused(fusion, columns) - expected[:, columns]).abs().max() < 1e-12


@settings(max_examples=40)
@given(clients=clients_drawn, split=st.integers(0, 5), seed=st.integers(0, 99))
def test_a_cohort_shared_by_two_processes_fuses_the_same(clients: list[tuple[Cut, int]], split: int, seed: int) -> None:
    """Each process sums its own clients, finished ones too; `reduce` adds up what the processes have."""
    cuts, steps = [cut for cut, _ in clients], [count for _, count in clients]
    draw = torch.Generator().manual_seed(seed)
    momenta = [torch.randn((count, 1, 15), generator=draw, dtype=torch.float64) for count in steps]
    halves = [Fusion(power(-1), regions(cuts), LAYOUT, 1, LIKE) for _ in range(2)]
    for tau in range(max(steps)):
        for j, cut in enumerate(cuts):
            if tau < steps[j]:
                contribute(halves[j >= split], cut, momenta[j][tau], finished=tau == steps[j] - 1)
        sent: list[Tensor] = []

        def send(total: Tensor, sent: list[Tensor] = sent) -> Tensor:
            sent.append(total.clone())
            return total

        halves[1].fuse(send)
        halves[0].fuse(lambda total, sent=sent: total + sent[0])
        expected = by_table(cuts, steps, momenta, tau, power(-1))
        for cut in cuts:
            columns = cut.server(LAYOUT)
            assert (fused(halves[0], columns) - expected[:, columns]).abs().max() < 1e-12


def test_every_moment_is_fused_alike() -> None:
    cut = Cut(1, 5, BLOCKS)
    fusion = Fusion(power(-1), regions([cut, cut]), LAYOUT, moments=2, like=LIKE)
    first = torch.stack([torch.full((15,), 2.0), torch.full((15,), 8.0)]).double()
    second = torch.stack([torch.full((15,), 4.0), torch.full((15,), 16.0)]).double()
    contribute(fusion, cut, first, finished=True)
    contribute(fusion, cut, second, finished=False)
    fusion.fuse(same)
    contribute(fusion, cut, second, finished=False)
    fusion.fuse(same)
    assert [moment.unique().tolist() for moment in fused(fusion, cut.server(LAYOUT))] == [[2.5], [10.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_computes_in_the_type_of_the_weights(dtype: torch.dtype) -> None:
    fusion = Fusion(power(-1), regions([Cut(1, 5, BLOCKS)]), LAYOUT, moments=1, like=torch.zeros(1, dtype=dtype))
    assert {fusion.prior.dtype, fusion.latest.dtype, fusion.total.dtype} == {dtype}
