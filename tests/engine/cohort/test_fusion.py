"""Fusion against its formula, m̄ = Σ_j (age_j + 1)^alpha m_j / |J|, from a plain table of all momenta; and to the same
bits, whoever adds which momenta, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import Branch
from smofi.flat import Layout
from support.fold import fold

BLOCKS, COLUMNS = 5, 15
DOUBLE = torch.zeros(1, 0, dtype=torch.float64)
Momenta = Sequence[Tensor]
"""Of every row, `[steps, moments, columns]`."""


# Five blocks of 1, 2, 3, 4 and 5 columns.
LAYOUT = Layout.of(nn.Sequential(*(nn.Linear(size, 1, bias=False) for size in range(1, BLOCKS + 1))))


def power(alpha: float) -> Callable[[int], float]:
    return lambda age: float((age + 1) ** alpha)


def planned(cuts: list[Cut], steps: list[int], landed: tuple[tuple[int, ...], ...] | None = None) -> RoundPlan:
    """A round with these numbers of steps; `landed` are the rows of every tick, where some are late."""
    count = len(cuts)
    shares = [1 / count] * count
    return RoundPlan(0, 0, 0.1, [*range(count)], [1] * count, steps, steps, shares, steps, shares, cuts, landed)


def ticks_of(plan: RoundPlan) -> list[list[int]]:
    """The rows of every tick."""
    if plan.landed is not None:
        return [list(rows) for rows in plan.landed]
    return [[row for row, count in enumerate(plan.steps) if tick < count] for tick in range(max(plan.steps))]


def fusing(
    plan: RoundPlan, alpha: float = -1, like: Tensor = DOUBLE, workers: int = 1, rank: int = 0, at_once: int = 0
) -> Fusion:
    branch = Branch.of(plan.steps, workers, rank)
    return Fusion(power(alpha), plan, LAYOUT, like, branch, at_once)


def alone(vectors: Sequence[Tensor]) -> None:
    """The exchange of a single process."""


def contribute(fusion: Fusion, row: int, value: Tensor | float) -> None:
    """What a client's step does: write its momentum, `[moments, columns]`, where the fusion wants it."""
    columns = fusion.plan.cuts[row].server(LAYOUT)
    moments = torch.as_tensor(value, dtype=fusion.prior.dtype).expand(len(fusion.prior), COLUMNS)
    for target, moment in zip(fusion.momentum(row).moments, moments, strict=True):
        target[0].copy_(moment[columns])
    fusion.add(row)


def tick(fusion: Fusion, values: Mapping[int, Tensor | float]) -> None:
    """One tick of a single process, given the momenta of the rows that take a step."""
    assert set(fusion.begin(list(values))) == set(values)
    for row, value in values.items():
        contribute(fusion, row, value)
    fusion.fuse(alone)


def fused(fusion: Fusion, columns: slice) -> Tensor:
    return fusion.prior[:, columns.start - fusion.low : columns.stop - fusion.low]


# -------------------------------------------------------------------------------------------------------------- by hand


def test_two_clients_by_hand() -> None:
    """Client 0 stops after its first step: its momentum 6 weighs 1, then 1/2, then 1/3 with alpha = -1."""
    cut = Cut(4, 5, BLOCKS)  # the last five columns
    fusion, columns = fusing(planned([cut, cut], [1, 3])), cut.server(LAYOUT)
    assert fused(fusion, columns).tolist() == [[0.0] * 5]
    tick(fusion, {0: 6, 1: 2})
    assert fused(fusion, columns).tolist() == [[(6 + 2) / 2] * 5]
    tick(fusion, {1: 10})
    assert fused(fusion, columns).tolist() == [[(6 / 2 + 10) / 2] * 5]
    tick(fusion, {1: -4})
    assert fused(fusion, columns).tolist() == [[(6 / 3 - 4) / 2] * 5]


def test_a_client_that_finishes_first_counts_once_in_its_last_step() -> None:
    cut = Cut(1, 5, BLOCKS)
    fusion = fusing(planned([cut, cut], [1, 2]), alpha=-0.5)
    tick(fusion, {0: 3, 1: 3})
    assert fused(fusion, cut.server(LAYOUT)).unique().tolist() == [3.0]


def test_a_column_is_divided_by_the_number_of_clients_that_have_it_on_the_server() -> None:
    """Blocks 1 to 4 hold 2, 3, 4 and 5 columns; their holders are client 0, both, both, client 1."""
    cuts = [Cut(1, 4, BLOCKS), Cut(2, 5, BLOCKS)]
    fusion, everything = fusing(planned(cuts, [1, 3])), LAYOUT.columns(1, 5)
    tick(fusion, {0: 4, 1: 10})
    assert fused(fusion, everything).tolist() == [[4.0] * 2 + [7.0] * 3 + [7.0] * 4 + [10.0] * 5]
    tick(fusion, {1: 20})
    assert fused(fusion, everything).tolist() == [[2.0] * 2 + [11.0] * 3 + [11.0] * 4 + [20.0] * 5]


def test_clients_without_a_column_do_not_even_change_the_sign_of_a_zero() -> None:
    """Blocks 1 and 4 are client 0's alone, and -0.0."""
    cuts = [Cut(1, 5, BLOCKS), Cut(2, 4, BLOCKS), Cut(3, 4, BLOCKS)]
    for order in ([0, 1, 2], [2, 1, 0]):
        fusion = fusing(planned(cuts, [2, 2, 2]))
        tick(fusion, {row: -0.0 if row == 0 else 1.0 for row in order})
        for block in (1, 4):
            assert fused(fusion, LAYOUT.columns(block, block + 1)).signbit().all()


def test_every_moment_is_fused_alike() -> None:
    cut = Cut(1, 5, BLOCKS)
    fusion = fusing(planned([cut, cut], [1, 3]), like=DOUBLE.expand(2, 0))
    first, second = torch.tensor([[2.0], [8.0]]), torch.tensor([[4.0], [16.0]])
    tick(fusion, {0: first, 1: second})
    tick(fusion, {1: second})
    assert [moment.unique().tolist() for moment in fused(fusion, cut.server(LAYOUT))] == [[2.5], [10.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_computes_in_the_type_of_the_weights(dtype: torch.dtype) -> None:
    fusion = fusing(planned([Cut(1, 5, BLOCKS)] * 2, [1, 2]), like=DOUBLE.to(dtype), at_once=2)
    tick(fusion, {0: 1, 1: 1})
    tensors = fusion.prior, fusion.scratch, *fusion.vectors.all, *fusion.kept.values()
    assert {tensor.dtype for tensor in tensors} == {dtype}


def test_a_late_client_counts_with_its_last_momentum_until_its_next() -> None:
    """Client 1 takes steps in ticks 1 and 3 of four. Before the first it counts in |J|, with a momentum of zero."""
    cut = Cut(4, 5, BLOCKS)
    fusion = fusing(planned([cut, cut], [4, 2], landed=((0,), (0, 1), (0,), (0, 1))))
    expected = [8 / 2, (8 + 6) / 2, (8 + 6 / 2) / 2, (8 + 10) / 2]
    for values, mean in zip([{0: 8}, {0: 8, 1: 6}, {0: 8}, {0: 8, 1: 10}], expected, strict=True):
        tick(fusion, values)
        assert fused(fusion, cut.server(LAYOUT)).tolist() == [[mean] * 5]


def test_momenta_that_are_kept() -> None:
    """Those that finish in the same tick as one sum, those that will be late each by itself, and not for longer."""
    cut = Cut(4, 5, BLOCKS)
    late = ((0, 1, 2, 3, 4), (0, 1, 2), (0, 1), (0, 1, 3, 4), (0,))  # 3 and 4 come back, and finish; 2 finishes alone
    fusion = fusing(planned([cut] * 5, [5, 4, 2, 2, 2], late))
    found = []
    for rows in late:
        tick(fusion, {row: 10.0**row for row in rows})
        found.append(sorted((when, who, float(vector[0, 0])) for (when, who), vector in fusion.kept.items()))
    assert found[0] == [(0, 3, 1000), (0, 4, 10000)]
    assert found[1] == [(0, 3, 1000), (0, 4, 10000), (1, -1, 100)]
    assert found[2] == found[1]
    assert found[3] == found[4] == [(1, -1, 100), (3, -1, 10 + 1000 + 10000)]


def test_nothing_is_kept_where_all_finish_together() -> None:
    fusion = fusing(planned([Cut(4, 5, BLOCKS)] * 3, [2, 2, 2]))
    for _ in range(2):
        tick(fusion, {0: 1, 1: 2, 2: 3})
    assert fusion.kept == {}


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 2), (4, 3), (5, 3), (8, 4), (16, 5)])
def test_vectors_in_use_are_those_of_the_levels_and_one(count: int, most: int) -> None:
    """Added in the order that `begin` gives; the memory of later ticks is that of the first. Five are
    (0 + (3 + 4)) + (1 + 2), in which no more than three wait for each other, as of four."""
    fusion = fusing(planned([Cut(4, 5, BLOCKS)] * count, [3] * count))
    for _ in range(3):
        for row in fusion.begin(range(count)):
            contribute(fusion, row, 1.0)
        fusion.fuse(alone)
        assert len(fusion.vectors.all) == most


# ------------------------------------------------------------------------------------------------- any plan, by a table


cuts_drawn = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda p: Cut(min(p), max(p) + 1, BLOCKS))
clients_drawn = st.lists(st.tuples(cuts_drawn, st.integers(1, 6)), min_size=1, max_size=9)
on_time = clients_drawn.map(lambda clients: planned([cut for cut, _ in clients], [steps for _, steps in clients]))


def with_late_ones(clients: list[tuple[Cut, set[int]]]) -> RoundPlan:
    """Given the ticks in which each takes a step; ticks that are nobody's do not exist."""
    ticks = sorted(set().union(*(own for _, own in clients)))
    landed = tuple(tuple(row for row, (_, own) in enumerate(clients) if number in own) for number in ticks)
    return planned([cut for cut, _ in clients], [len(own) for _, own in clients], landed)


late = st.lists(st.tuples(cuts_drawn, st.sets(st.integers(0, 5))), min_size=1, max_size=9)
plans = on_time | late.filter(lambda clients: any(own for _, own in clients)).map(with_late_ones)


def momenta_of(plan: RoundPlan, seed: int, like: Tensor = DOUBLE) -> Momenta:
    """Of every step of every row, of all sizes, so that the order of adding shows."""
    draw = torch.Generator().manual_seed(seed)
    found = [torch.randn((count, len(like), COLUMNS), generator=draw, dtype=torch.float64) for count in plan.steps]
    sizes = [10.0 ** torch.randint(0, 4, one.shape, generator=draw) for one in found] if like.element_size() < 8 else []
    return [one * size for one, size in zip(found, sizes, strict=True)] if sizes else found


def by_table(plan: RoundPlan, momenta: Momenta, tau: int, weight: Callable[[int], float]) -> Tensor:
    """m̄ after tick tau from every client's last momentum, column by column."""
    moments = momenta[0].shape[1]
    total, holders = torch.zeros(moments, COLUMNS, dtype=torch.float64), torch.zeros(COLUMNS, dtype=torch.float64)
    for row, cut in enumerate(plan.cuts):
        columns = cut.server(LAYOUT)
        holders[columns] += 1
        taken = [number for number, rows in enumerate(ticks_of(plan)) if row in rows and number <= tau]
        if taken:
            total[:, columns] += weight(tau - taken[-1]) * momenta[row][len(taken) - 1][:, columns]
    return total / holders.clamp(min=1)


@settings(max_examples=40)
@given(plan=plans, alpha=st.floats(-10, 0), moments=st.integers(1, 2), seed=st.integers(0, 99))
def test_any_cuts_and_any_numbers_of_steps(plan: RoundPlan, alpha: float, moments: int, seed: int) -> None:
    like = DOUBLE.expand(moments, 0)
    momenta = momenta_of(plan, seed, like)
    for tau, found in enumerate(driven([fusing(plan, alpha, like)], momenta)):
        expected = by_table(plan, momenta, tau, power(alpha))
        for cut in plan.cuts:
            columns = cut.server(LAYOUT)
            assert (found[:, columns] - expected[:, columns]).abs().max() < 1e-12


@settings(max_examples=40)
@given(plan=plans, workers=st.integers(2, 5), seed=st.integers(0, 99))
def test_a_cohort_shared_by_processes_fuses_the_same(plan: RoundPlan, workers: int, seed: int) -> None:
    """Each adds up its own clients, finished ones too; the exchange adds up what the processes have."""
    momenta = momenta_of(plan, seed)
    fusions = [fusing(plan, workers=workers, rank=rank) for rank in range(workers)]
    for tau, found in enumerate(driven(fusions, momenta)):
        expected = by_table(plan, momenta, tau, power(-1))
        for cut in plan.cuts:
            columns = cut.server(LAYOUT)
            assert (found[:, columns] - expected[:, columns]).abs().max() < 1e-12


# ----------------------------------------------------------------------------------------------------- to the same bits


class Meeting:
    """Where processes, here threads, exchange what they have: folded, in every one of them."""

    def __init__(self, size: int) -> None:
        self.barrier = Barrier(size, timeout=30)
        self.brought: list[list[Tensor]] = [[] for _ in range(size)]

    def exchange(self, rank: int, vectors: Sequence[Tensor]) -> None:
        self.brought[rank] = [vector.clone() for vector in vectors]
        self.barrier.wait()
        for vector, terms in zip(vectors, zip(*self.brought, strict=True), strict=True):
            total = fold(terms)
            assert total is not None
            vector.copy_(total)
        self.barrier.wait()


Adding = Callable[[Fusion, list[int], dict[int, Tensor]], None]
"""Adds the momenta of a process's rows of a tick, however it likes."""


def in_order(fusion: Fusion, rows: list[int], values: dict[int, Tensor]) -> None:
    for row in rows:
        contribute(fusion, row, values[row])


def shuffled(seed: int, fusion: Fusion, rows: list[int], values: dict[int, Tensor]) -> None:
    in_order(fusion, [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))], values)


def at_once(fusion: Fusion, rows: list[int], values: dict[int, Tensor]) -> None:
    """As many as the scratch has places for, subtree by subtree; runs of equal cuts together, a third row alone."""
    for number, subtree in enumerate(fusion.branch.subtrees(fusion.scratch.shape[1])):
        if number:
            fusion.leave_scratch()
        ready = sorted((row for row in subtree if row in rows), key=lambda row: str(fusion.plan.cuts[row]))
        together, left_over = (ready[:-1], ready[-1:]) if len(ready) > 2 else (ready, [])
        for cut in dict.fromkeys(fusion.plan.cuts[row] for row in together):
            places = [place for place, row in enumerate(together) if fusion.plan.cuts[row] == cut]
            columns = cut.server(LAYOUT)
            moments = fusion.momenta_at_once(places[0], len(places), columns).moments
            for place in places:
                for target, moment in zip(moments, values[ready[place]], strict=True):
                    target[place - places[0]].copy_(moment[columns])
            for place in places:
                fusion.add(ready[place], place)
        for row in left_over:
            contribute(fusion, row, values[row])


def driven(fusions: Sequence[Fusion], momenta: Momenta, add: Adding = in_order) -> list[Tensor]:
    """A round of these processes: m̄ after every tick, `[moments, columns]`, which must be the same in all of them."""
    plan, meeting = fusions[0].plan, Meeting(len(fusions))
    taken, found = [0] * len(momenta), []

    def process(rank: int, rows: list[int], values: dict[int, Tensor]) -> None:
        add(fusions[rank], fusions[rank].begin(rows), values)
        fusions[rank].fuse(partial(meeting.exchange, rank))

    with ThreadPoolExecutor(len(fusions)) as pool:
        for rows in ticks_of(plan):
            values = {row: momenta[row][taken[row]].to(fusions[0].prior.dtype) for row in rows}
            taken = [count + (row in rows) for row, count in enumerate(taken)]
            for running in [pool.submit(process, rank, rows, values) for rank in range(len(fusions))]:
                running.result()
            first = fusions[0]
            assert [same_bits(first.prior, other.prior) for other in fusions] == [True] * len(fusions)
            found.append(torch.zeros(len(first.prior), COLUMNS, dtype=first.prior.dtype))
            found[-1][:, first.low : first.high] = first.prior
    return found


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.contiguous().view(torch.uint8).equal(other.contiguous().view(torch.uint8))


def check_same(one: Sequence[Tensor], other: Sequence[Tensor]) -> None:
    assert [number for number, pair in enumerate(zip(one, other, strict=True)) if not same_bits(*pair)] == []


SINGLE = torch.zeros(2, 0)


@settings(max_examples=40)
@given(plan=plans, seed=st.integers(0, 99))
def test_any_order_of_adding_gives_the_same_bits(plan: RoundPlan, seed: int) -> None:
    momenta = momenta_of(plan, seed, SINGLE)
    expected = driven([fusing(plan, like=SINGLE)], momenta)
    check_same(driven([fusing(plan, like=SINGLE)], momenta, partial(shuffled, seed)), expected)


@settings(max_examples=40)
@given(plan=plans, workers=st.sampled_from([2, 4]), seed=st.integers(0, 99))
def test_two_and_four_processes_fuse_to_the_bits_of_one(plan: RoundPlan, workers: int, seed: int) -> None:
    momenta = momenta_of(plan, seed, SINGLE)
    fusions = [fusing(plan, like=SINGLE, workers=workers, rank=rank) for rank in range(workers)]
    check_same(driven(fusions, momenta), driven([fusing(plan, like=SINGLE)], momenta))


@example(plan=planned([Cut(1, 5, BLOCKS)] * 8, [2] * 8), most=2, workers=1, seed=0)
@example(plan=planned([Cut(1, 5, BLOCKS), Cut(2, 4, BLOCKS)] * 4, [3, 3, 1, 1, 3, 2, 3, 1]), most=4, workers=1, seed=0)
@settings(max_examples=40)
@given(plan=plans, most=st.integers(1, 9), workers=st.sampled_from([1, 2]), seed=st.integers(0, 99))
def test_at_once_gives_the_bits_of_one_by_one(plan: RoundPlan, most: int, workers: int, seed: int) -> None:
    """The scratch may be smaller than the process has rows: then it is used again within a tick."""
    momenta = momenta_of(plan, seed, SINGLE)
    fusions = [fusing(plan, like=SINGLE, workers=workers, rank=rank, at_once=most) for rank in range(workers)]
    check_same(driven(fusions, momenta, at_once), driven([fusing(plan, like=SINGLE)], momenta))


def test_the_bits_are_those_of_the_tree() -> None:
    """Seven clients, of which three finish: those that go on are folded by themselves, then those that finish."""
    cut = Cut(1, 5, BLOCKS)
    plan = planned([cut] * 7, [3, 1, 3, 1, 3, 1, 3])
    momenta = [one.float() for one in momenta_of(plan, 1, SINGLE)]
    strip = [0, 2, 4, 6, 1, 3, 5]  # the longest first
    going_on = fold([momenta[row][0] if plan.steps[row] == 3 else None for row in strip])
    finishing = fold([momenta[row][0] if plan.steps[row] == 1 else None for row in strip])
    assert going_on is not None
    assert finishing is not None
    columns = cut.server(LAYOUT)
    after = driven([fusing(plan, like=SINGLE)], momenta)
    assert same_bits(after[0][:, columns], ((going_on + finishing) / 7)[:, columns])
    going_on = fold([momenta[row][1] if plan.steps[row] == 3 else None for row in strip])
    assert going_on is not None
    assert same_bits(after[1][:, columns], (going_on.add(finishing, alpha=0.5) / 7)[:, columns])
