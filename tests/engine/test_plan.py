"""Plans: who takes part, with how many steps and which weight, as a function of the seed and the round alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import smofi
from reference import perceptron
from smofi import methods
from smofi.cut import Cut, Cuts
from smofi.engine.plan import Planner, RoundSettings, select_clients
from smofi.method import Turnout
from smofi.methods.mergesfl import REFERENCES

SIZES = (5, 9, 3, 17, 13, 8, 4, 0, 32, 11)
EVERY_METHOD = [
    "fedavg",
    "fedprox(0.1)",
    "fednar",
    "fedavgm(0.3)",
    "slowmo(1, 0.5)",
    "fednag",
    "smofi",
    "sflv1",
    "sflv1('epoch')",
    "sflv2",
    "sflv2('step')",
    "mergesfl",
]


def planner(**changes: Any) -> Planner:
    settings: dict[str, Any] = {"participation": 0.5, "batch_size": 4, "local_epochs": 3, "seed": 7, "lr": 0.1}
    parts: dict[str, Any] = {"sizes": SIZES, "cuts": Cuts((Cut(1, 3, 3),)), "method": methods.fedavg()}
    names = {field.name for field in fields(RoundSettings)}
    settings |= {name: value for name, value in changes.items() if name in names}
    parts |= {name: value for name, value in changes.items() if name not in names}
    return Planner(**parts, settings=RoundSettings(**settings))


# Who


def test_a_client_with_less_than_a_batch_is_not_eligible() -> None:
    assert planner().eligible == [0, 1, 3, 4, 5, 6, 8, 9]
    assert planner(batch_size=17).eligible == [3, 8]
    assert planner(batch_size=33).eligible == []


@pytest.mark.parametrize(
    ("participation", "clients", "count"),
    [(0.2, 100, 20), (0.01, 10, 1), (0.26, 10, 3), (0.24, 10, 2), (1.0, 10, 10), (1, 3, 3), (0.5, 1, 1), (0.34, 3, 1)],
)
def test_how_many_take_part(participation: float, clients: int, count: int) -> None:
    """max(1, round(participation * clients))"""
    assert planner(sizes=[10] * clients, participation=participation).per_round == count


def test_the_count_is_of_all_clients_and_never_more_than_the_eligible() -> None:
    sizes = [1] * 7 + [10] * 3
    assert planner(sizes=sizes, participation=0.2).per_round == 2
    assert planner(sizes=sizes, participation=0.9).per_round == 3
    assert planner(sizes=sizes, participation=0.9).plan(0).clients == [7, 8, 9]


@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(lambda sizes: max(sizes) >= 5),
    participation=st.floats(0.01, 1),
    seed=st.integers(0, 5),
    number=st.integers(0, 50),
)
def test_any_round_draws_that_many_of_the_eligible(
    sizes: list[int], participation: float, seed: int, number: int
) -> None:
    drawn = planner(sizes=sizes, participation=participation, batch_size=5, seed=seed).plan(number).clients
    eligible = {j for j, size in enumerate(sizes) if size >= 5}
    assert len(drawn) == min(len(eligible), max(1, round(participation * len(sizes))))
    assert drawn == sorted(set(drawn) & eligible)


def test_the_selection_is_a_function_of_seed_and_round() -> None:
    first = [planner().plan(n).clients for n in range(20)]
    assert first == [planner().plan(n).clients for n in range(20)]
    assert first[::-1] == [planner().plan(n).clients for n in reversed(range(20))]
    assert first != [planner(seed=8).plan(n).clients for n in range(20)]
    assert len({tuple(clients) for clients in first}) > 10, "rounds draw anew"


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_the_selection_does_not_depend_on_the_method_or_the_training(method: str) -> None:
    expected = [planner().plan(n).clients for n in range(10)]
    other = planner(
        method=methods.parse_method(method), lr=0.5, lr_decay=0.9, local_epochs=1, cuts=Cuts((Cut(2, 3, 3),))
    )
    assert [other.plan(n).clients for n in range(10)] == expected


class Watched(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """A data set that remembers which samples were asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.seen = size, list[int]()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.seen.append(index)
        return torch.full((3,), float(index)), index % 3


def batches_seen(method: str, seed: int = 3) -> list[list[int]]:
    clients = [Watched(size) for size in (9, 5, 13)]
    session = smofi.prepare(
        *(perceptron(), clients),
        method=method,
        optimizer=smofi.sgd(lr=0.01, momentum=0.9),
        **dict(rounds=2, participation=0.67, local_epochs=2, batch_size=4, seed=seed),
    )
    for client in clients:
        client.seen.clear()  # what was read to check the data
    session.train()
    return [client.seen for client in clients]


def test_the_batches_do_not_depend_on_the_method() -> None:
    expected = batches_seen("fedavg")
    assert [len(seen) // 4 for seen in expected] != [0, 0, 0]
    for method in EVERY_METHOD[1:]:
        assert batches_seen(method) == expected, method
    assert batches_seen("fedavg", seed=4) != expected


def test_the_samples_of_an_epoch_are_seen_once() -> None:
    """Two of the three clients in each of two rounds, two epochs each: whole batches, in a new order every time."""
    orders = []
    for seen, size in zip(batches_seen("fedavg"), (9, 5, 13), strict=True):
        kept = size // 4 * 4
        epochs = [seen[start : start + kept] for start in range(0, len(seen), kept)]
        assert all(len(set(epoch)) == kept for epoch in epochs)
        orders += [tuple(epoch) for epoch in epochs if kept > 4]  # five samples may come in the same order twice
    assert len(set(orders)) == len(orders) > 2


# How much


def test_steps_are_local_epochs_of_whole_batches() -> None:
    """T_j = E floor(|D_j| / B)"""
    plan = planner(participation=1.0).plan(0)
    assert plan.clients == [0, 1, 3, 4, 5, 6, 8, 9]
    assert plan.epoch_steps == [1, 2, 4, 3, 2, 1, 8, 2]
    assert plan.steps == [3, 6, 12, 9, 6, 3, 24, 6]
    assert plan.batch_sizes == [4] * 8


def test_aggregation_weights_are_shares_of_the_samples() -> None:
    plan = planner(participation=1.0).plan(0)
    sizes = [5, 9, 17, 13, 8, 4, 32, 11]
    assert plan.shares == pytest.approx([size / 99 for size in sizes])


@pytest.mark.parametrize("method", [methods.slowmo(1, 0.5, steps=7), methods.fednag(steps=7)], ids=str)
def test_fixed_steps_are_the_same_for_all(method: smofi.Method) -> None:
    plan = planner(participation=1.0, method=method, local_epochs=50).plan(0)
    assert plan.steps == [7] * 8
    assert plan.epoch_steps == [1, 2, 4, 3, 2, 1, 8, 2]
    assert planner(participation=1.0, method=methods.fednag()).plan(0).steps == [3, 6, 12, 9, 6, 3, 24, 6]


def test_mergesfl_sizes_batches_by_speed_and_weighs_clients_by_batch() -> None:
    """B_i = clamp(round(B s_i / s_max), 1, |D_i|): the fastest of the round's clients has the whole batch."""
    speeds = [1.0, 0.5, 9.0, 0.26, 0.1, 2.0, 0.01, 9.0, 1.0, 1.3]
    plan = planner(participation=1.0, method=methods.mergesfl(), speeds=speeds).plan(0)
    # of 2.0, for clients 0, 1, 3, 4, 5, 6, 8 and 9: 2, 1, 0.52, 0.2, 4, 0.02, 2 and 2.6
    assert plan.batch_sizes == [2, 1, 1, 1, 4, 1, 2, 3]
    assert plan.epoch_steps == [2, 9, 17, 13, 2, 4, 16, 3]
    assert plan.steps == [6, 27, 51, 39, 6, 12, 48, 9]
    assert plan.shares == pytest.approx([b / 15 for b in [2, 1, 1, 1, 4, 1, 2, 3]])


def test_mergesfl_by_the_slowest_gives_faster_clients_more_samples() -> None:
    """B_i = clamp(round(B s_i / s_min), 1, |D_i|), of speeds for clients 0, 1, 3, 4, 5, 6, 8 and 9."""
    speeds = [1.0, 0.5, 9.0, 0.26, 0.25, 2.0, 0.3, 9.0, 1.0, 1.3]
    plan = planner(participation=1.0, method=methods.mergesfl(reference="slowest"), speeds=speeds).plan(0)
    # 16 of 5, 8, 4.16, 4, 32 of 8, 4.8 of 4, 16 and 20.8 of 11
    assert plan.batch_sizes == [5, 8, 4, 4, 8, 4, 16, 11]
    assert plan.epoch_steps == [1, 1, 4, 3, 1, 1, 2, 1]
    assert plan.shares == pytest.approx([b / 60 for b in plan.batch_sizes])


def test_without_speeds_mergesfl_has_one_batch_size_by_either_reference() -> None:
    one, other = (planner(participation=1.0, method=methods.mergesfl(reference=name)).plan(0) for name in REFERENCES)
    assert one.batch_sizes == other.batch_sizes == [4] * 8


def test_mergesfl_compares_speeds_within_the_round() -> None:
    speeds = [0.1] * 10
    speeds[8] = 10.0
    plans = [planner(method=methods.mergesfl(), speeds=speeds).plan(n) for n in range(20)]
    for plan in plans:
        alone = 8 in plan.clients
        assert plan.batch_sizes == [4 if client == 8 or not alone else 1 for client in plan.clients]
    assert {8 in plan.clients for plan in plans} == {True, False}


def test_without_speeds_mergesfl_has_equal_batches() -> None:
    plan = planner(participation=1.0, method=methods.mergesfl(steps=5)).plan(0)
    assert plan.batch_sizes == [4] * 8
    assert plan.steps == [5] * 8
    assert plan.shares == pytest.approx([1 / 8] * 8)


def test_speeds_mean_nothing_to_other_methods() -> None:
    with_speeds, without = planner(speeds=[1.0, 0.1] * 5).plan(2), planner().plan(2)
    assert with_speeds == without


@pytest.mark.parametrize("decay", [1.0, 0.998, 0.5])
def test_the_learning_rate_decays_once_a_round(decay: float) -> None:
    rates = [planner(lr=0.2, lr_decay=decay).plan(n).lr for n in (0, 1, 2, 10)]
    assert rates == pytest.approx([0.2, 0.2 * decay, 0.2 * decay**2, 0.2 * decay**10], rel=1e-12)


# In which order


def groups(method: str, steps: Sequence[int], epoch_steps: Sequence[int] | None = None) -> list[Any]:
    """What every tick trains, and what it averages."""
    where = methods.parse_method(method).where
    ticks = where.schedule(Turnout(steps, epoch_steps or steps), lambda step: np.random.default_rng(step))
    return [(tick.groups, tick.average) for tick in ticks]


def test_in_parallel_all_active_clients_step_together() -> None:
    expected = [([(0,), (1,), (2,)], ()), ([(0,), (2,)], ()), ([(2,)], ())]
    for method in ("fedavg", "smofi", "sflv1('round')"):
        assert groups(method, [2, 1, 3]) == expected


def test_sflv1_averages_the_active_after_every_step() -> None:
    assert groups("sflv1", [2, 1, 3]) == [
        ([(0,), (1,), (2,)], (0, 1, 2)),
        ([(0,), (2,)], (0, 2)),
        ([(2,)], (2,)),
    ]


def test_sflv1_by_epoch_waits_for_all_and_averages_all() -> None:
    """Two epochs of 1, 2 and 1 steps."""
    everyone = (0, 1, 2)
    assert groups("sflv1('epoch')", [2, 4, 2], [1, 2, 1]) == [
        ([(0,), (1,), (2,)], ()),
        ([(1,)], everyone),
        ([(0,), (1,), (2,)], ()),
        ([(1,)], everyone),
    ]


def test_sflv1_by_epoch_with_fixed_steps_ends_where_the_steps_end() -> None:
    """Three steps each, in epochs of 1 and 2: the first client needs three epochs, the second one and a half."""
    everyone = (0, 1)
    assert groups("sflv1('epoch')", [3, 3], [1, 2]) == [
        ([(0,), (1,)], ()),
        ([(1,)], everyone),
        ([(0,), (1,)], everyone),
        ([(0,)], everyone),
    ]


def test_mergesfl_trains_all_active_clients_as_one_group() -> None:
    assert groups("mergesfl", [2, 1, 3]) == [([(0, 1, 2)], ()), ([(0, 2)], ()), ([(2,)], ())]


def test_sflv2_by_step_visits_the_active_clients_in_an_order_drawn_each_step() -> None:
    ticks = groups("sflv2('step')", [20] * 6)
    assert all(sorted(visited) == [(row,) for row in range(6)] and average == () for visited, average in ticks)
    assert len({tuple(visited) for visited, _ in ticks}) > 10
    visits = [sorted(visited) for visited, _ in groups("sflv2('step')", [2, 1, 3])]
    assert visits == [[(0,), (1,), (2,)], [(0,), (2,)], [(2,)]]


def test_sflv2_lets_each_finish_before_the_next() -> None:
    visited = [tick[0][0][0] for tick in groups("sflv2", [2, 1, 3])]
    assert sorted(visited) == [0, 0, 1, 2, 2, 2]
    starts = [row for i, row in enumerate(visited) if i == 0 or visited[i - 1] != row]
    assert sorted(starts) == [0, 1, 2]


def test_the_visits_of_a_plan_are_seeded_by_seed_round_and_step() -> None:
    method = methods.sflv2("step")

    def visits(seed: int, number: int) -> list[Any]:
        plan = planner(sizes=[8] * 6, participation=1.0, seed=seed, method=method).plan(number)
        return [tick.groups for tick in plan.ticks(method)]

    assert visits(7, 0) == visits(7, 0)
    assert visits(7, 0) != visits(8, 0)
    assert visits(7, 0) != visits(7, 1)
    assert len({tuple(groups_) for groups_ in visits(7, 0)}) > 1


@given(
    eligible=st.lists(st.integers(0, 100), min_size=1, unique=True),
    count=st.integers(1, 120),
    seed=st.integers(0, 5),
)
def test_selection_draws_distinct_eligible_clients_in_order(eligible: list[int], count: int, seed: int) -> None:
    selected = select_clients(eligible, count, seed=seed, round=3)
    assert len(selected) == min(count, len(eligible))
    assert selected == sorted(set(selected))
    assert set(selected) <= set(eligible)
    assert selected == select_clients(eligible, count, seed=seed, round=3)
    assert all(type(client) is int for client in selected)


def test_selection_is_fair_over_rounds() -> None:
    # 2 of 10 over 2,000 rounds: each about 400 times, with a standard deviation of 18.
    counts = np.zeros(10)
    for number in range(2000):
        counts[select_clients(list(range(10)), 2, seed=0, round=number)] += 1
    assert counts.sum() == 4000
    assert (np.abs(counts - 400) < 90).all()
