"""Who takes part in a round, with which batches, steps, cut and learning rate: a function of seed and round alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import smofi
from reference import perceptron
from smofi import methods

SIZES = (5, 9, 3, 17, 13, 8, 4, 0, 32, 11)
EVERY_METHOD = ["fedprox(0.1)+smofi", "fednar", "slowmo(1, 0.5)", "fednag", "sflv1", "sflv2('step')", "mergesfl"]


class Watched(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """A data set that remembers which samples were asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.seen = size, list[int]()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.seen.append(index)
        return torch.full((3,), float(index % 7) / 7), index % 3


def rounds(sizes: Sequence[int] = SIZES, **changes: Any) -> list[smofi.Record]:
    """The records of a run, by default of a single round that all eligible clients take part in."""
    how: dict[str, Any] = {"participation": 1.0, "batch_size": 4, "local_epochs": 3, "seed": 7, "rounds": 1, "cut": 1}
    clients = [(torch.zeros(size, 3), torch.zeros(size, dtype=torch.int64)) for size in sizes]
    return smofi.train(
        perceptron(), clients, **{"method": "fedavg", "optimizer": "sgd(lr=0.001)", **how, **changes}
    ).history


# ---------------------------------------------------------------------------------------------------------------- who


@pytest.mark.parametrize(("batch_size", "eligible"), [(4, [0, 1, 3, 4, 5, 6, 8, 9]), (17, [3, 8])])
def test_a_client_with_less_than_a_batch_takes_no_part(batch_size: int, eligible: list[int]) -> None:
    assert rounds(batch_size=batch_size)[0].selected == eligible


@pytest.mark.parametrize(
    ("participation", "clients", "count"),
    [(0.2, 100, 20), (0.01, 10, 1), (0.26, 10, 3), (0.24, 10, 2), (1.0, 10, 10), (1, 3, 3), (0.5, 1, 1), (0.34, 3, 1)],
)
def test_how_many_take_part(participation: float, clients: int, count: int) -> None:
    """max(1, round(participation * clients))"""
    assert len(rounds([4] * clients, participation=participation)[0].selected) == count


def test_the_count_is_of_all_clients_and_never_more_than_the_eligible() -> None:
    sizes = [1] * 7 + [4] * 3
    assert len(rounds(sizes, participation=0.2)[0].selected) == 2
    assert rounds(sizes, participation=0.9)[0].selected == [7, 8, 9]


def test_the_selection_is_fair_and_a_function_of_seed_and_round_not_of_method_or_training() -> None:
    def selected(**changes: Any) -> list[list[int]]:
        how = {"participation": 0.3, "rounds": 60, "local_epochs": 1}
        return [record.selected for record in rounds([4] * 9 + [2], **how | changes)]

    first = selected()
    assert first == selected()
    assert first[:20] == selected(rounds=20)
    assert first != selected(seed=8)
    assert all(one == sorted(set(one)) and len(one) == 3 and 9 not in one for one in first)
    # 3 of 9 over 60 rounds: each about 20 times, with a standard deviation of 3.7
    assert all(6 < sum(client in one for one in first) < 34 for client in range(9))
    for method in EVERY_METHOD:
        assert selected(method=method, rounds=6, cut=2, optimizer="sgd(lr=0.1, lr_decay=0.9)") == first[:6], method


def batches_seen(method: str, seed: int = 3) -> list[list[int]]:
    clients = [Watched(size) for size in (9, 5, 13)]
    how: dict[str, Any] = dict(rounds=2, participation=0.67, local_epochs=2, batch_size=4, seed=seed)
    session = smofi.prepare(perceptron(), clients, method=method, optimizer="sgd(lr=0.01, momentum=0.9)", **how)
    for client in clients:
        client.seen.clear()  # what was read to check the data
    session.train()
    return [client.seen for client in clients]


def test_batches_do_not_depend_on_the_method_and_an_epoch_sees_each_sample_once() -> None:
    expected = batches_seen("fedavg")
    for method in EVERY_METHOD:
        assert batches_seen(method) == expected, method
    assert batches_seen("fedavg", seed=4) != expected
    orders = []
    for seen, size in zip(expected, (9, 5, 13), strict=True):
        kept = size // 4 * 4
        epochs = [seen[start : start + kept] for start in range(0, len(seen), kept)]
        assert all(len(set(epoch)) == kept for epoch in epochs)
        orders += [tuple(epoch) for epoch in epochs if kept > 4]  # five samples may come in the same order twice
    assert len(set(orders)) == len(orders) > 2


# ----------------------------------------------------------------------------------------------------------- how much


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        ("fedavg", [3, 6, 12, 9, 6, 3, 24, 6]),  # T_j = E floor(|D_j| / B)
        ("slowmo(1, 0.5, steps=7)", [7] * 8),
        ("fednag(steps=7)", [7] * 8),
        ("mergesfl", [3, 6, 12, 9, 6, 3, 24, 6]),
        ("mergesfl(reference='slowest')", [3, 6, 12, 9, 6, 3, 24, 6]),
        ("mergesfl(steps=5)", [5] * 8),
    ],
)
def test_steps_are_local_epochs_of_whole_batches_or_fixed(method: str, steps: list[int]) -> None:
    assert rounds(method=method)[0].steps == steps


@pytest.mark.parametrize(
    ("reference", "speeds", "batches"),
    [
        # B_i = clamp(round(B s_i / s_max), 1, |D_i|): of 2.0, for clients 0, 1, 3, 4, 5, 6, 8 and 9:
        # 2, 1, 0.52, 0.2, 4, 0.02, 2 and 2.6
        ("fastest", [1.0, 0.5, 9.0, 0.26, 0.1, 2.0, 0.01, 9.0, 1.0, 1.3], [2, 1, 1, 1, 4, 1, 2, 3]),
        # s_min for s_max: 16 of 5, 8, 4.16, 4, 32 of 8, 4.8 of 4, 16 and 20.8 of 11
        ("slowest", [1.0, 0.5, 9.0, 0.26, 0.25, 2.0, 0.3, 9.0, 1.0, 1.3], [5, 8, 4, 4, 8, 4, 16, 11]),
    ],
)
def test_mergesfl_sizes_batches_by_speed_among_those_of_the_round(
    reference: str, speeds: list[float], batches: list[int]
) -> None:
    sizes = [SIZES[client] for client in (0, 1, 3, 4, 5, 6, 8, 9)]
    expected = [3 * (size // batch) for size, batch in zip(sizes, batches, strict=True)]
    assert rounds(method=f"mergesfl(reference='{reference}')", speeds=speeds)[0].steps == expected
    assert rounds(speeds=speeds)[0].steps == rounds()[0].steps, "they mean nothing to other methods"


def test_the_learning_rate_decays_once_a_round() -> None:
    history = rounds(rounds=4, optimizer="sgd(lr=0.002, lr_decay=0.5)")
    assert [record.learning_rate for record in history] == pytest.approx([0.002, 0.001, 0.0005, 0.00025], rel=1e-12)


# ------------------------------------------------------------------------------------------------------ in which order


def groups(method: str, steps: Sequence[int], epoch_steps: Sequence[int] | None = None) -> list[Any]:
    """What every tick trains, and what it averages."""
    where = methods.parse_method(method).where
    ticks = where.schedule(smofi.Turnout(steps, epoch_steps or steps), lambda step: np.random.default_rng(step))
    return [(tick.groups, tick.average) for tick in ticks]


IN_PARALLEL = [([(0,), (1,), (2,)], ()), ([(0,), (2,)], ()), ([(2,)], ())]


@pytest.mark.parametrize(
    ("method", "steps", "epoch_steps", "expected"),
    [
        *((one, [2, 1, 3], None, IN_PARALLEL) for one in ("fedavg", "smofi", "sflv1('round')")),
        ("sflv1", [2, 1, 3], None, [([(0,), (1,), (2,)], (0, 1, 2)), ([(0,), (2,)], (0, 2)), ([(2,)], (2,))]),
        # two epochs of 1, 2 and 1 steps
        (
            "sflv1('epoch')", [2, 4, 2], [1, 2, 1],
            [([(0,), (1,), (2,)], ()), ([(1,)], (0, 1, 2)), ([(0,), (1,), (2,)], ()), ([(1,)], (0, 1, 2))],
        ),
        # three steps each, in epochs of 1 and 2: the first client needs three epochs, the second one and a half
        (
            "sflv1('epoch')", [3, 3], [1, 2],
            [([(0,), (1,)], ()), ([(1,)], (0, 1)), ([(0,), (1,)], (0, 1)), ([(0,)], (0, 1))],
        ),
        ("mergesfl", [2, 1, 3], None, [([(0, 1, 2)], ()), ([(0, 2)], ()), ([(2,)], ())]),
    ],
)  # fmt: skip
def test_the_schedule_of_a_method(method: str, steps: list[int], epoch_steps: Any, expected: list[Any]) -> None:
    assert groups(method, steps, epoch_steps) == expected


def test_sflv2_visits_clients_one_by_one_in_an_order_that_is_drawn() -> None:
    ticks = groups("sflv2('step')", [20] * 6)
    assert all(sorted(visited) == [(row,) for row in range(6)] and average == () for visited, average in ticks)
    assert len({tuple(visited) for visited, _ in ticks}) > 10
    assert [sorted(visited) for visited, _ in groups("sflv2('step')", [2, 1, 3])] == [
        [(0,), (1,), (2,)], [(0,), (2,)], [(2,)],
    ]  # fmt: skip
    visited = [tick[0][0][0] for tick in groups("sflv2", [2, 1, 3])]  # each finishes before the next
    assert sorted(visited) == [0, 0, 1, 2, 2, 2]
    assert sorted(row for i, row in enumerate(visited) if i == 0 or visited[i - 1] != row) == [0, 1, 2]
