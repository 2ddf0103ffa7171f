"""Clients that are late for a step: momenta of any age against plain loops, whoever computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import reference
import smofi
from reference import convnet, federation, perceptron
from smofi.data import batch_order

Landed = Sequence[Sequence[int]]
BATCH, SEED = 4, 6
ETA, BETA = 0.1, 0.9


# --------------------------------------------------------------------------------------------------------- plain loops


def momenta_by_hand(data: reference.Data, landed: Landed, shares: Sequence[float], alpha: float) -> Tensor:
    """SMoFi without global momentum under SGD with momentum, on the perceptron cut in half, as short as it can be said:
    m̄ is added up anew in every tick, from the last momentum of each."""
    model = perceptron()
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    weights = [dict(start) for _ in data]
    own = [{name: torch.zeros_like(value) for name, value in start.items()} for _ in data]
    server = [name for name in start if int(name.split(".")[0]) > 1]
    fused = {name: torch.zeros_like(start[name]) for name in server}
    last: dict[int, int] = {}
    steps = [sum(j in rows for rows in landed) for j in range(len(data))]
    orders = [iter(batch_order(len(x), BATCH, steps[j], seed=SEED, round=0, client=j)) for j, (x, _) in enumerate(data)]
    for tick, rows in enumerate(landed):
        for j in rows:
            batch = torch.as_tensor(next(orders[j]))
            leaves = {name: value.clone().requires_grad_() for name, value in weights[j].items()}
            loss = cross_entropy(functional_call(model, leaves, (data[j][0][batch],)), data[j][1][batch])
            for name, g in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):
                # m_j = beta m̄ + g_j ;  W_j -= eta m_j
                own[j][name] = BETA * (fused[name] if name in server else own[j][name]) + g
                weights[j][name] = weights[j][name] - ETA * own[j][name]
            last[j] = tick
        for name in server:
            # m̄ = sum_j (age_j + 1)^alpha m_j / |J|, where m_j = 0 before its first step
            terms = [(tick - at + 1) ** alpha * own[j][name] for j, at in last.items()]
            fused[name] = sum(terms, torch.zeros_like(start[name])) / len(data)
    return torch.cat([reference.weighted(shares, [one[name] for one in weights]).flatten() for name in start])


def by_reference(
    model: nn.Sequential, data: reference.Data, landed: Landed, shares: Sequence[float],
    method: reference.Method, optimizer: reference.Optimizer, cut: Any,
) -> Tensor:  # fmt: skip
    """A round of tests/reference.py, whose clients take their steps in the ticks that they are told."""
    blocks = list(model.train().named_children())
    world = reference.Replica(
        {name: value.detach().clone() for name, value in model.named_parameters()},
        {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()},
        *({}, {}, {}),
    )
    world.reset_optimizer(world.weights)
    now = reference.Round(blocks, method, optimizer, cross_entropy, 0, SEED, 1, dict(world.weights))
    clients = []
    for j, samples in enumerate(data):
        fixed = replace(now, method=replace(method, steps=sum(j in rows for rows in landed)))
        clients.append(reference.enter(fixed, world, samples, j, reference.cut_of(j, cut, 0, SEED), BATCH))
    zero = {name: torch.zeros_like(value) for name, value in world.weights.items()}
    ages, last = [0] * len(clients), [[zero, zero] for _ in clients]
    for rows in landed:
        ages = [age + 1 for age in ages]
        for j in rows:
            reference.train_one_batch(now, clients[j])
            ages[j], last[j] = 0, [dict(clients[j].replica.first), dict(clients[j].replica.second)]
        if method.alpha is not None:
            reference.fuse(clients, ages, last, method.alpha)
        if method.share == "step":
            reference.share(clients, rows)
    average = {name: reference.weighted(shares, [one.replica.weights[name] for one in clients]) for name in zero}
    reference.update_globally(
        world.weights, average, {name: torch.zeros_like(one) for name, one in zero.items()}, method, now.eta
    )
    for name in world.statistics:
        world.statistics[name] = reference.weighted(shares, [client.replica.statistics[name] for client in clients])
    return in_order(model, {**world.weights, **world.statistics})


def in_order(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensors[name].flatten() for name in model.state_dict() if name in tensors])


def state(model: nn.Module) -> Tensor:
    return torch.cat([one.flatten() for one in model.state_dict().values() if one.is_floating_point()])


# ----------------------------------------------------------------------------------------------------------- by a clock


def trained(
    make: Callable[[], nn.Sequential],
    sizes: Sequence[int],
    lengths: Sequence[float],
    deadline: float | None,
    **how: Any,
) -> smofi.Result:
    """Clients whose steps take so long, and who is not done after `deadline` is late."""
    data = federation([1, 4, 4] if make is convnet else [3], sizes)
    how = {"participation": 1.0, "batch_size": BATCH, "local_epochs": 1, "seed": SEED, "rounds": 1, "cut": 1, **how}
    how = {"optimizer": f"sgd(lr={ETA}, momentum={BETA})", **how}
    cuts = how["cut"] if isinstance(how["cut"], list) else [how["cut"]] * len(sizes)
    devices = [
        smofi.Device(length / step_seconds(make, cut), 1e15, 1e15) for length, cut in zip(lengths, cuts, strict=True)
    ]
    timing = smofi.Timing("paper", devices=devices, server_speedup=1e15, step_deadline=deadline)
    return smofi.train(make(), data, clock=timing, **how)


def step_seconds(make: Callable[[], nn.Sequential], cut: Any) -> float:
    """What a step takes on a device that needs a second for a sample of the whole model."""
    timing = smofi.Timing("paper", devices=[smofi.Device(1.0, 1e15, 1e15)], server_speedup=1e15)
    data = federation([1, 4, 4] if make is convnet else [3], [BATCH])
    (record,) = smofi.train(
        make(), data, clock=timing, cut=cut, rounds=1, participation=1.0, batch_size=BATCH, local_epochs=1
    ).history
    assert record.virtual_seconds
    return record.virtual_seconds


SIZES, LENGTHS, DEADLINE = [16, 17, 18], [1.0, 2.5, 1.5], 1.2
LANDED = [(0,), (0, 2), (0, 1), (0, 2)]
"""Four steps each, of 1 s, 2.5 s and 1.5 s, with 1.2 s to be on time. What is done in which tick:

tick 0   0.0 - 1.2   0 at 1.0
tick 1   1.2 - 2.2   2 at 1.5, 0 at 2.2
tick 2   2.2 - 3.4   1 at 2.5, 0 at 3.2; 2 is late again
tick 3   3.4 - 4.6   2 at 3.7, 0 at 4.4; 1 is late again, and 0 has all of its steps
"""
SHARES = [16 / 34, 0.0, 18 / 34]
"""Client 1 has taken less than half of its steps."""


@pytest.mark.parametrize("executor", ["loop", "vmap", "auto"])
@pytest.mark.parametrize("alpha", [-1.0, -0.1, 0.0])
def test_momenta_of_any_age_are_fused_by_the_formula(executor: str, alpha: float) -> None:
    method = f"smofi({alpha}, global_momentum=0)"
    result = trained(perceptron, SIZES, LENGTHS, DEADLINE, method=method, executor=executor)
    (record,) = result.history
    assert (record.steps, record.left_out) == ([4, 1, 2], [1])
    assert record.virtual_seconds == pytest.approx(4.6)
    expected = momenta_by_hand(federation([3], SIZES), LANDED, SHARES, alpha)
    assert (state(result.model) - expected).abs().max() < 1e-10


SGD = reference.Optimizer("sgd", ETA, BETA)
SMOFI = reference.Method(alpha=-0.5, outer="momentum", outer_momentum=0.3)
OWN_CUTS = [0, 2, 1]
CASES: dict[str, tuple[Any, str, reference.Method, str, reference.Optimizer, Any]] = {
    "nesterov": (
        perceptron, "smofi(-0.5)", SMOFI, "sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)",
        reference.Optimizer("sgd", 0.1, 0.9, nesterov=True, weight_decay=0.01), (0, 1),
    ),
    "adam": (perceptron, "smofi(-0.5)", SMOFI, "adam(lr=0.01)", reference.Optimizer("adam", 0.01), OWN_CUTS),
    "adamw": (
        perceptron, "smofi(-0.5)", SMOFI, "adamw(lr=0.01, weight_decay=0.1)",
        reference.Optimizer("adamw", 0.01, weight_decay=0.1), 1,
    ),
    "statistics": (convnet, "smofi(-0.5)", SMOFI, "sgd(lr=0.1, momentum=0.9)", SGD, OWN_CUTS),
    "sflv1": (perceptron, "sflv1", reference.Method(share="step"), "sgd(lr=0.1, momentum=0.9)", SGD, OWN_CUTS),
    "sflv1 with statistics": (
        convnet, "sflv1", reference.Method(share="step"), "sgd(lr=0.1, momentum=0.9)", SGD, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("executor", ["loop", "vmap"])
@pytest.mark.parametrize("case", CASES)
def test_every_optimizer_cut_and_executor(case: str, executor: str) -> None:
    """Within the round, weights are those of all clients: who will be left out is not known yet."""
    make, method, theirs, optimizer, same, cut = CASES[case]
    how = {"method": method, "optimizer": optimizer, "cut": cut, "executor": executor}
    result = trained(make, SIZES, LENGTHS, DEADLINE, **how)
    assert result.history[0].steps == [4, 1, 2]
    data = federation([1, 4, 4] if make is convnet else [3], SIZES)
    expected = by_reference(make(), data, LANDED, SHARES, theirs, same, cut)
    assert (state(result.model) - expected).abs().max() < 1e-10


@pytest.mark.parametrize("method", ["smofi", "sflv1"])
def test_where_all_are_late_some_take_a_tick_alone(method: str) -> None:
    """Steps of 2 s and 5 s, 1 s to be on time: the slow one is alone in tick 2, and left out in the end."""
    result = trained(perceptron, [16, 16], [2.0, 5.0], 1.0, method=method)
    assert (result.history[0].steps, result.history[0].left_out) == ([4, 1], [1])
    theirs = reference.Method(share="step") if method == "sflv1" else replace(SMOFI, alpha=-0.1)
    landed = [(0,), (0,), (1,), (0,), (0,)]
    expected = by_reference(perceptron(), federation([3], [16, 16]), landed, [1.0, 0.0], theirs, SGD, 1)
    assert (state(result.model) - expected).abs().max() < 1e-10


@pytest.mark.parametrize("executor", ["loop", "vmap"])
@pytest.mark.parametrize("method", ["smofi", "sflv1"])
def test_a_deadline_that_nobody_misses_changes_no_bit(method: str, executor: str) -> None:
    one, other = (
        trained(perceptron, [16, 5, 18], LENGTHS, deadline, method=method, executor=executor, rounds=2)
        for deadline in (2.6, None)
    )
    assert torch.equal(state(one.model), state(other.model))
    assert [r.virtual_end for r in one.history] == pytest.approx([r.virtual_end for r in other.history])
    assert all(not record.left_out for record in one.history)


def test_a_client_without_a_step_counts_in_the_number_of_clients_only() -> None:
    """m̄ is the mean of two momenta, one of them zero; and where a round is a single step, speed is measured too."""
    result = trained(perceptron, [16, 17], [1.0, 9.0], 1.2, method="smofi(-1, global_momentum=0)", executor="auto")
    assert result.history[0].steps == [4, 0]
    data = federation([3], [16, 17])
    landed = [(0,)] * 4
    assert (state(result.model) - momenta_by_hand(data, landed, [1.0, 0.0], -1.0)).abs().max() < 1e-10
    assert (state(result.model) - momenta_by_hand(data[:1], landed, [1.0], -1.0)).abs().max() > 1e-4


def test_the_share_of_stale_momenta_is_that_of_late_clients_too() -> None:
    """Client 1 takes no step, and client 2 one in every other tick: its momentum is a tick old in the third of four."""
    result = trained(perceptron, SIZES, [1.0, 9.0, 1.5], 1.2, method="smofi(-1)", diagnose=True)
    assert result.history[0].steps == [4, 0, 2]
    assert result.history[0].diagnostics["stale_share"] == pytest.approx((0 + 0 + 0.5 / 1.5 + 0) / 4)
