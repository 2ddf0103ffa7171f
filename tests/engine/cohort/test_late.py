"""Late clients: momenta of any age against plain loops, whoever computes them, and rounds that a clock cuts short."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import reference
import smofi
from reference import convnet, federation, perceptron
from smofi import Device, Timing
from smofi.data import batch_order
from smofi.engine.cohort.execution import Execution
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.workers import Workers
from smofi.training import Session

Landed = Sequence[Sequence[int]]

SIZES = (17, 9, 22, 13)
BATCH, EPOCHS, SEED = 4, 2, 6

LATE: Landed = [(0, 1), (0, 3), (0, 3), (1, 2, 3), (0,), (0, 1), (1,), (0, 2, 3), (0,)]
"""Client 0 is on time but for two ticks; 1 is away twice; 2 comes late, and late again; 3 is there now and then."""

OPTIMIZERS: dict[str, tuple[smofi.optim.Optimizer, reference.Optimizer]] = {
    "momentum": (smofi.sgd(lr=0.1, momentum=0.9), reference.Optimizer("sgd", 0.1, 0.9)),
    "nesterov": (
        smofi.sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        reference.Optimizer("sgd", 0.1, 0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": (smofi.adam(lr=0.01), reference.Optimizer("adam", 0.01)),
    "adamw": (smofi.adamw(lr=0.01, weight_decay=0.1), reference.Optimizer("adamw", 0.01, weight_decay=0.1)),
}


# ------------------------------------------------------------------------------------------------------ as a plain loop


def momenta_by_hand(
    model: nn.Sequential, data: reference.Data, landed: Landed, shares: Sequence[float], alpha: float, cut: int
) -> dict[str, Tensor]:
    """SMoFi without global momentum under SGD with momentum, as short as it can be said: every client's momenta of
    every tick are kept, and m̄ is added up anew from the last one of each."""
    eta, beta = 0.1, 0.9
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    weights = [dict(start) for _ in data]
    own = [{name: torch.zeros_like(value) for name, value in start.items()} for _ in data]
    server = [name for name in start if int(name.split(".")[0]) > cut]
    fused = {name: torch.zeros_like(start[name]) for name in server}
    last: dict[int, int] = {}
    batches = [batches_of(data[j], j, sum(j in rows for rows in landed)) for j in range(len(data))]
    for tick, rows in enumerate(landed):
        for j in rows:
            x, y = next(batches[j])
            leaves = {name: value.clone().requires_grad_() for name, value in weights[j].items()}
            loss = cross_entropy(torch.func.functional_call(model, leaves, (x,)), y)
            for name, g in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):
                # m_j = beta m̄ + g_j ;  W_j -= eta m_j
                own[j][name] = beta * (fused[name] if name in server else own[j][name]) + g
                weights[j][name] = weights[j][name] - eta * own[j][name]
            last[j] = tick
        for name in server:
            # m̄ = sum_j (age_j + 1)^alpha m_j / |J|, where m_j = 0 before its first step
            terms = [(tick - at + 1) ** alpha * own[j][name] for j, at in last.items()]
            fused[name] = sum(terms, torch.zeros_like(start[name])) / len(data)
    return {name: reference.weighted(shares, [one[name] for one in weights]) for name in start}


def batches_of(samples: tuple[Tensor, Tensor], client: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    x, y = samples
    order = batch_order(len(x), BATCH, steps, seed=SEED, round=0, client=client)
    return iter([(x[torch.as_tensor(rows)], y[torch.as_tensor(rows)]) for rows in order])


def by_reference(
    model: nn.Sequential,
    data: reference.Data,
    landed: Landed,
    shares: Sequence[float],
    method: reference.Method,
    optimizer: reference.Optimizer,
    cut: Any,
) -> dict[str, Tensor]:
    """The same with all of tests/reference.py, whose clients take their steps in the ticks that they are told."""
    blocks = list(model.train().named_children())
    world = reference.Replica(
        {name: value.detach().clone() for name, value in model.named_parameters()},
        {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()},
        *({}, {}, {}),
    )
    world.reset_optimizer(world.weights)
    now = reference.Round(blocks, method, optimizer, cross_entropy, 0, SEED, EPOCHS, dict(world.weights))
    clients = []
    for j, samples in enumerate(data):
        steps = sum(j in rows for rows in landed)
        fixed = replace(now, method=replace(method, steps=steps))
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
    average = {
        name: reference.weighted(shares, [client.replica.weights[name] for client in clients]) for name in world.weights
    }
    buffer = {name: torch.zeros_like(value) for name, value in average.items()}
    reference.update_globally(world.weights, average, buffer, method, now.eta)
    statistics = {
        name: reference.weighted(shares, [client.replica.statistics[name] for client in clients])
        for name in world.statistics
    }
    return {**world.weights, **statistics}


# -------------------------------------------------------------------------------------------------------- by the engine


def prepared(model: nn.Sequential, data: reference.Data, **changes: Any) -> Session:
    how = {"participation": 1.0, "batch_size": BATCH, "local_epochs": EPOCHS, "seed": SEED, "rounds": 1, **changes}
    optimizer = how.pop("optimizer", OPTIMIZERS["momentum"][0])
    return smofi.prepare(model, data, optimizer=optimizer, **how)


def late_plan(session: Session, landed: Landed, shares: Sequence[float]) -> RoundPlan:
    """The first round with these ticks, and with weights of the clients that sum up to one or are all zero."""
    plan = session.run.planner.plan(0)
    steps = [sum(row in rows for rows in landed) for row in range(len(plan.clients))]
    return replace(plan, landed=tuple(map(tuple, landed)), steps=steps, shares=list(shares))


def outcome(session: Session) -> dict[str, Tensor]:
    state = session.result().model.state_dict()
    return {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}


def after(session: Session, landed: Landed, shares: Sequence[float]) -> dict[str, Tensor]:
    session.run.one_round(late_plan(session, landed, shares))
    return outcome(session)


def gap(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def shares_of(landed: Landed, planned: Sequence[int], sizes: Sequence[int] = SIZES) -> list[float]:
    """p_j over those that took at least half of the steps they were to take."""
    kept = [
        size if 2 * sum(j in rows for rows in landed) >= planned[j] else 0
        for j, size in enumerate(sizes)
    ]  # fmt: skip
    return [size / sum(kept) for size in kept]


PLANNED = [EPOCHS * (size // BATCH) for size in SIZES]  # 8, 4, 10 and 6 steps, of which LATE has 7, 4, 2 and 4
SHARES = shares_of(LATE, PLANNED)


def test_the_third_of_these_clients_is_left_out() -> None:
    assert PLANNED == [8, 4, 10, 6]
    assert [round(39 * share, 9) for share in SHARES] == [17, 9, 0, 13]


@pytest.mark.parametrize("executor", ["loop", "vmap"])
@pytest.mark.parametrize("alpha", [-0.1, -1.0, 0.0])
def test_momenta_of_any_age_are_fused_by_the_formula(executor: str, alpha: float) -> None:
    data = federation([3], SIZES)
    session = prepared(perceptron(), data, method=f"smofi({alpha}, global_momentum=0)", cut=1, executor=executor)
    expected = momenta_by_hand(perceptron(), data, LATE, SHARES, alpha, cut=1)
    assert gap(after(session, LATE, SHARES), expected) < 1e-10


WAYS = {
    "loop": Execution(),
    "all at once": Execution(64),
    "two at a time": Execution(2),
    "at once from three on": Execution(64, 3),
}
CUTS: dict[str, Any] = {"one cut": 1, "each its own": [0, 2, 1, 0], "U shape": (0, 1)}


EVERY = [
    *(("loop", "one cut", optimizer) for optimizer in OPTIMIZERS),
    *((way, "each its own", optimizer) for way in WAYS for optimizer in ("momentum", "adam")),
    ("loop", "U shape", "adam"),
    ("all at once", "one cut", "adamw"),
    ("all at once", "U shape", "nesterov"),
]


@pytest.mark.parametrize(("way", "cut", "optimizer"), EVERY)
def test_every_optimizer_cut_and_executor(way: str, cut: str, optimizer: str) -> None:
    ours, theirs = OPTIMIZERS[optimizer]
    data = federation([3], SIZES)
    session = prepared(perceptron(), data, method="smofi(-0.5)", optimizer=ours, cut=CUTS[cut])
    session.run.simulation = replace(session.run.simulation, execution=WAYS[way])
    method = reference.Method(alpha=-0.5, outer="momentum", outer_momentum=0.3)
    expected = by_reference(perceptron(), data, LATE, SHARES, method, theirs, CUTS[cut])
    assert gap(after(session, LATE, SHARES), expected) < 1e-10


@pytest.mark.parametrize("way", ["loop", "all at once"])
@pytest.mark.parametrize("method", ["smofi(-1)", "sflv1"])
@pytest.mark.parametrize("cut", ["one cut", "each its own"])
def test_statistics_and_shared_servers(way: str, method: str, cut: str) -> None:
    """SFLV1 averages, tick by tick, over those whose step is done; BatchNorm's statistics go where the weights go."""
    data = federation([1, 4, 4], SIZES)
    session = prepared(convnet(), data, method=method, cut=CUTS[cut])
    session.run.simulation = replace(session.run.simulation, execution=WAYS[way])
    smofi_ = reference.Method(alpha=-1.0, outer="momentum", outer_momentum=0.3)
    theirs = smofi_ if "smofi" in method else reference.Method(share="step")
    # the weights within the round are those of all clients: who will be left out is not known yet
    expected = by_reference(convnet(), data, LATE, SHARES, theirs, OPTIMIZERS["momentum"][1], CUTS[cut])
    assert gap(after(session, LATE, SHARES), expected) < 1e-10


@given(data=st.data(), vmap=st.booleans(), alpha=st.sampled_from([-0.1, -2.0]))
@settings(max_examples=8)
def test_any_turnout(data: st.DataObject, vmap: bool, alpha: float) -> None:
    """Also with clients that never come, and with those alone who came first or last."""
    ticks = data.draw(st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=8))
    landed = [sorted(rows) for rows in ticks]
    weights = data.draw(st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any))
    shares = [weight / sum(weights) for weight in weights]
    clients = federation([3], SIZES)
    session = prepared(perceptron(), clients, method=f"smofi({alpha}, global_momentum=0)")
    session.run.simulation = replace(session.run.simulation, execution=Execution(64 if vmap else 0))
    expected = momenta_by_hand(perceptron(), clients, landed, shares, alpha, cut=1)
    assert gap(after(session, landed, shares), expected) < 1e-10


@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_a_client_without_a_step_counts_in_the_number_of_clients_only(executor: str) -> None:
    """m̄ after the first tick is the mean of two momenta, one of them zero."""
    data = federation([3], SIZES[:2])
    landed = [(0,), (0,), (0,)]
    session = prepared(perceptron(), data, method="smofi(-1, global_momentum=0)", executor=executor)
    record = session.run.one_round(late_plan(session, landed, [1.0, 0.0]))
    expected = momenta_by_hand(perceptron(), data, landed, [1.0, 0.0], -1.0, cut=1)
    assert gap(outcome(session), expected) < 1e-10
    assert record.steps == [3, 0]
    alone = momenta_by_hand(perceptron(), data[:1], landed, [1.0], -1.0, cut=1)
    assert gap(alone, expected) > 1e-4


@pytest.mark.parametrize("method", ["smofi", "sflv1", "fedprox(0.1)+smofi"])
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_a_round_in_which_nobody_did_half_leaves_the_model_bit_for_bit(method: str, executor: str) -> None:
    data = federation([1, 4, 4], SIZES)
    session = prepared(convnet(), data, method=method, executor=executor)
    session.run.state.memory.fill_(0.25)
    before = {name: tensor.clone() for name, tensor in session.run.state.tensors().items()}
    session.run.one_round(late_plan(session, LATE, [0.0] * 4))
    assert all(torch.equal(tensor, before[name]) for name, tensor in session.run.state.tensors().items())


def test_in_sflv1_a_tick_of_one_that_is_left_out_goes_on_from_its_server() -> None:
    """Client 2 takes the tick 1 alone and is not part of the new model, but all servers go on from what it has."""
    data = federation([3], SIZES)
    landed = [(0, 1, 3), (2,), (0, 1, 3), (0, 1, 3)]
    shares = [17 / 39, 9 / 39, 0.0, 13 / 39]
    expected = by_reference(
        perceptron(), data, landed, shares, reference.Method(share="step"), OPTIMIZERS["momentum"][1], 1
    )
    assert gap(after(prepared(perceptron(), data, method="sflv1"), landed, shares), expected) < 1e-10


def test_all_on_time_is_as_without_a_deadline() -> None:
    for executor in ("loop", "vmap"):
        data = federation([1, 4, 4], SIZES)
        plain, timed = (prepared(convnet(), data, executor=executor) for _ in range(2))
        plan = plain.run.planner.plan(0)
        plain.run.one_round(plan)
        landed = [[row for row, steps in enumerate(plan.steps) if tick < steps] for tick in range(max(plan.steps))]
        found = after(timed, landed, plan.shares)
        assert all(torch.equal(tensor, found[name]) for name, tensor in outcome(plain).items())


# ---------------------------------------------------------------------------------------------------- several processes


@pytest.mark.parametrize(("method", "cut"), [("smofi(-1)", 1), ("smofi(-0.3)", [0, 2, 1, 0]), ("sflv1", 1)])
def test_two_processes_give_the_numbers_of_one(method: str, cut: Any, tmp_path: Path) -> None:
    data = federation([1, 4, 4], SIZES)

    def compute(workers: Workers | None, executor: str) -> dict[str, Tensor]:
        return after(
            prepared(convnet(), data, method=method, cut=cut, workers=workers, executor=executor), LATE, SHARES
        )

    workers = ForkedWorkers(2)
    workers.fork()
    if workers.rank > 0:
        signal.alarm(60)
        code = 1
        try:
            for executor in ("loop", "vmap"):
                save_file(compute(workers, executor), tmp_path / executor)
            code = 0
        finally:
            os._exit(code)
    try:
        found = {executor: compute(workers, executor) for executor in ("loop", "vmap")}
        ended = os.waitid(os.P_PID, workers.children[0], os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_status == 0
    finally:
        workers.end()
    alone = compute(None, "loop")
    for executor, together in found.items():
        assert gap(together, alone) < 1e-10
        assert gap(load_file(tmp_path / executor), together) == 0


# --------------------------------------------------------------------------------------------------------- by the clock


def stepping(*lengths: float) -> list[Device]:
    """Devices that take so long for a step of the perceptron cut in half, and next to no time to send."""
    return [Device(length / (3 * BATCH * 0.5), 1e15, 1e15) for length in lengths]


def timed(method: str, deadline: float | None, lengths: Sequence[float], sizes: Sequence[int], **how: Any) -> Session:
    timing = Timing("paper", devices=stepping(*lengths), server_speedup=1e15, step_deadline=deadline)
    return prepared(perceptron(), federation([3], sizes), method=method, clock=timing, local_epochs=1, **how)


@pytest.mark.parametrize("executor", ["loop", "vmap", "auto"])
def test_a_deadline_end_to_end(executor: str) -> None:
    """Four steps each, of 1 s, 2.5 s and 1.5 s, with 1.2 s to be on time. What is done in which tick:

    tick 0   0.0 - 1.2   0 at 1.0
    tick 1   1.2 - 2.2   2 at 1.5, 0 at 2.2
    tick 2   2.2 - 3.4   1 at 2.5, 0 at 3.2; 2 is late again
    tick 3   3.4 - 4.6   2 at 3.7, 0 at 4.4; 1 is late again, and 0 has all of its steps
    """
    session = timed("smofi(-1, global_momentum=0)", 1.2, [1.0, 2.5, 1.5], [16, 17, 18], executor=executor)
    (record,) = session.train().history
    landed = [(0,), (0, 2), (0, 1), (0, 2)]
    assert (record.steps, record.left_out) == ([4, 1, 2], [1])
    assert record.virtual_seconds == pytest.approx(4.6)
    shares = [16 / 34, 0.0, 18 / 34]
    data = federation([3], [16, 17, 18])
    assert gap(outcome(session), momenta_by_hand(perceptron(), data, landed, shares, -1.0, cut=1)) < 1e-10


@pytest.mark.parametrize("method", ["smofi", "sflv1"])
def test_a_deadline_that_nobody_misses_changes_no_bit(method: str) -> None:
    with_deadline, without = (
        timed(method, deadline, [1.0, 2.5, 1.5], [16, 5, 18], rounds=2) for deadline in (2.6, None)
    )
    one, other = with_deadline.train(), without.train()
    assert all(torch.equal(tensor, outcome(without)[name]) for name, tensor in outcome(with_deadline).items())
    assert [r.virtual_end for r in one.history] == pytest.approx([r.virtual_end for r in other.history])
    assert all(not record.left_out for record in one.history)


@pytest.mark.parametrize("method", ["smofi", "sflv1"])
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_where_all_are_late_some_take_a_tick_alone(method: str, executor: str) -> None:
    """Steps of 2 s and 5 s, 1 s to be on time: the slow one is alone in tick 2, and left out in the end."""
    session = timed(method, 1.0, [2.0, 5.0], [16, 16], executor=executor)
    plan = session.run.planner.plan(0)
    assert plan.landed == ((0,), (0,), (1,), (0,), (0,))
    assert plan.shares == [1.0, 0.0]
    result = session.train()
    assert result.stopped is None
    data = federation([3], [16, 16])
    theirs = reference.Method(share="step") if method == "sflv1" else reference.Method(
        alpha=-0.1, outer="momentum", outer_momentum=0.3
    )  # fmt: skip
    expected = by_reference(perceptron(), data, plan.landed, [1.0, 0.0], theirs, OPTIMIZERS["momentum"][1], 1)
    assert gap(outcome(session), expected) < 1e-10


def test_auto_measures_where_a_round_is_a_single_step() -> None:
    session = timed("smofi", 1.2, [1.0, 2.5, 1.1], [4, 5, 6], executor="auto")
    (record,) = session.train().history
    assert (record.steps, record.left_out) == ([1, 0, 1], [1])


def test_the_share_of_stale_momenta_is_that_of_late_clients_too() -> None:
    """Client 1 takes no step, and client 2 one in every other tick: its momentum is a tick old in the third of four."""
    session = timed("smofi(-1)", 1.2, [1.0, 9.0, 1.5], [16, 17, 18], diagnose=True)
    assert session.run.planner.plan(0).landed == ((0,), (0, 2), (0,), (0, 2))
    (record,) = session.train().history
    assert record.diagnostics["stale_share"] == pytest.approx((0 + 0 + 0.5 / 1.5 + 0) / 4)
