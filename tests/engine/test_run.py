"""Whole runs: what a callback sees, the same bits twice, how runs end that go wrong, and what they keep in memory."""

from __future__ import annotations

import copy
import math
import random
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import smofi
from reference import Weight, convnet, federation, perceptron
from smofi import TrainingWarning
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.events import Event, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.engine.memory.needs import round_memory

METHODS = [
    "fedavg",
    "fedprox(0.1)+smofi",
    "fedavgm(0.3)",
    "slowmo(0.5, 0.4)",
    "fednag",
    "sflv1",
    "sflv2",
    "mergesfl",
]


def settings(**changes: Any) -> dict[str, Any]:
    return {"rounds": 3, "participation": 0.5, "local_epochs": 2, "batch_size": 4, "seed": 5, "cut": 1, **changes}


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: nn.Module | dict[str, Tensor], b: nn.Module | dict[str, Tensor]) -> bool:
    a, b = (one.state_dict() if isinstance(one, nn.Module) else one for one in (a, b))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# Events


@pytest.mark.parametrize("method", ["smofi", "sflv2", "sflv2('step')", "mergesfl"])
def test_a_callback_sees_every_event_in_order(method: str) -> None:
    events: list[Event] = []
    result = smofi.train(convnet(), federation([1, 4, 4]), method=method, **settings(rounds=2), callback=events.append)
    first, last = events[0], events[-1]
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunEnded)
    assert (first.method, first.rounds, first.clients, first.eligible, first.per_round, first.parameters) == (
        *(method.replace("('", "(turns='"), 2, 6, 5, 3, 468),
    )
    assert (last.rounds, last.stopped) == (2, None)

    expected: list[tuple[Any, ...]] = []
    for record in result.history:
        ticks = sum(record.steps) if method == "sflv2" else max(record.steps)
        expected.append((RoundStarted, record.round, record.selected, record.steps))
        expected += [(TickDone, record.round, tick) for tick in range(ticks)]
        expected.append((RoundDone, record))
    seen = [(type(event), *vars(event).values()) for event in events[1:-1]]
    assert seen == expected


def test_remarks_are_made_as_a_run_begins() -> None:
    events: list[Event] = []
    clock = smofi.Timing("full", step_deadline=9.0)
    smofi.train(
        convnet(), federation([1, 4, 4]), method="fedavg", **settings(rounds=2), clock=clock, callback=events.append
    )
    remark = Warned("step_deadline changes nothing for fedavg, which does not wait at every step")
    assert (events[1], events.count(remark)) == (remark, 1)


def test_an_exception_in_a_callback_ends_the_run() -> None:
    def fail(event: Event) -> None:
        if isinstance(event, RoundDone):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        smofi.train(perceptron(), federation([3]), **settings(), callback=fail)


# Bits


def with_dropout() -> nn.Sequential:
    torch.manual_seed(3)
    hidden = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.4)) for _ in range(2)]
    return nn.Sequential(nn.Linear(3, 8), *hidden, nn.BatchNorm1d(8), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("method", "cut"),
    [*((method, 1) for method in METHODS), ("smofi", "0-2"), ("smofi", (0, 1)), ("mergesfl", (0, 1))],
    ids=str,
)
def test_the_same_seed_gives_the_same_bits(method: str, cut: Any) -> None:
    model, clients = with_dropout(), federation([3])

    def final(seed: int) -> nn.Module:
        return smofi.train(model, clients, method=method, **settings(rounds=2, cut=cut, seed=seed)).model

    torch.manual_seed(0)
    first = final(seed=5)
    torch.manual_seed(1)
    assert same(first, final(seed=5)), "it depends on the caller's random state"
    assert not same(first, final(seed=6))


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    model, clients = with_dropout(), federation([3])
    short, long = (smofi.train(model, clients, method="smofi", **settings(rounds=rounds)) for rounds in (2, 4))
    losses = [[record.train_loss for record in result.history] for result in (short, long)]
    assert losses[0] == losses[1][:2]
    assert not same(short.model, long.model)


@pytest.mark.parametrize("method", ["smofi", "sflv2", "sflv2('step')", "mergesfl"])
def test_dropout_draws_anew_for_every_client_and_step(method: str) -> None:
    """Clients that hold the same samples would be alike all through the first step if they drew alike."""
    x, y = torch.ones(4, 3), torch.tensor([0, 1, 2, 0])
    seen: list[Tensor] = []

    class Watch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                seen.extend(x.detach()[:1].clone())
            return x

    model = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5), Watch(), nn.Linear(64, 3))
    session = smofi.prepare(model, [(x, y)] * 3, method=method, **settings(rounds=2, participation=1.0, cut=2))
    seen.clear()
    session.train()
    dropped = {tuple((row == 0).tolist()) for row in seen}
    assert len(dropped) == len(seen) == 3 * 2 * 2


def test_the_callers_random_state_is_untouched() -> None:
    model = with_dropout()
    torch.manual_seed(12)
    random.seed(12)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    smofi.train(model, federation([3]), federation([3])[3], method="sflv2", **settings())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_the_callers_model_and_data_are_unchanged(method: str) -> None:
    model, clients = convnet().eval(), federation([1, 4, 4])
    before, data = state(model), copy.deepcopy(clients)
    model[0][0].weight.grad = torch.ones_like(model[0][0].weight)
    result = smofi.train(model, clients, clients[3], method=method, **settings())
    assert same(model, before)
    assert not model.training
    assert model[0][0].weight.grad.unique().tolist() == [1]
    assert all(p.grad is None for p in list(model.parameters())[1:])
    assert all(
        torch.equal(a, b) for one, other in zip(clients, data, strict=True) for a, b in zip(one, other, strict=True)
    )
    assert not same(result.model, before)
    assert result.model is not model


def test_a_frozen_part_stays_as_it_is() -> None:
    model = convnet()
    model[1].requires_grad_(False)
    before = state(model[1][0])
    result = smofi.train(model, federation([1, 4, 4]), method="smofi", **settings())
    assert same(result.model[1][0], before)
    assert [p.requires_grad for p in result.model.parameters()] == [p.requires_grad for p in model.parameters()]
    assert not same(result.model[0][0], model[0][0])


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
@pytest.mark.parametrize("shape", [[3], [1, 4, 4], [3, 18, 18]], ids=["vectors", "tiny images", "images"])
def test_clients_given_as_datasets_give_the_same_bits(shape: Sequence[int], method: str) -> None:
    model = perceptron().float()
    if len(shape) == 3:
        torch.manual_seed(0)
        pool = nn.AdaptiveAvgPool2d(2)
        model = nn.Sequential(nn.Conv2d(shape[0], 8, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(32, 3))
    tensors = [(x.float(), y) for x, y in federation(shape)]
    as_tensors, as_datasets = (
        smofi.train(model, clients, clients[3], method=method, **settings(rounds=2))
        for clients in (tensors, [TensorDataset(*pair) for pair in tensors])
    )
    assert [record.loss for record in as_tensors.history] == [record.loss for record in as_datasets.history]
    assert same(as_tensors.model, as_datasets.model)


def test_lists_of_samples_and_arrays_do_as_well() -> None:
    tensors = [(x.float(), y) for x, y in federation([3])]
    expected = smofi.train(perceptron().float(), tensors, **settings()).model
    lists = [[(x_i, int(y_i)) for x_i, y_i in zip(x, y, strict=True)] for x, y in tensors]
    arrays = [(x.numpy(), y.numpy()) for x, y in tensors]
    for clients in (lists, arrays):
        assert same(smofi.train(perceptron().float(), clients, **settings()).model, expected)


@pytest.mark.parametrize("method", ["smofi", "mergesfl", "fednag"])
def test_everything_is_computed_in_the_models_type(method: str) -> None:
    singles = [(x.float(), y) for x, y in federation([3])]
    doubles = [(x.double(), y) for x, y in singles]
    result = smofi.train(perceptron(), singles, method=method, **settings())
    assert {p.dtype for p in result.model.parameters()} == {torch.float64}
    assert same(result.model, smofi.train(perceptron(), doubles, method=method, **settings()).model)
    single = smofi.train(perceptron().float(), doubles, method=method, **settings()).model
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    difference = max((a - b).abs().max() for a, b in zip(single.parameters(), result.model.parameters(), strict=True))
    assert 1e-9 < difference < 1e-4


# Runs that go wrong


def explode(lr: float, rounds: int, events: list[Event]) -> smofi.Result:
    """Prediction w x, loss (w x)²/2: client 0 has x = 0 and stays, client 1 has x = 1 and gets w (1 - lr) each step."""
    zeros, ones = torch.zeros(4), torch.ones(4)
    return smofi.train(
        *(nn.Sequential(nn.Identity(), Weight()), [(zeros, zeros), (ones, zeros)]),
        method="fedavg",
        optimizer=smofi.sgd(lr=lr),
        loss=lambda output, target: (output - target).square().mean() / 2,
        **settings(cut=0, rounds=rounds, participation=1.0, local_epochs=4, batch_size=4, metrics=()),
        callback=events.append,
    )


def test_a_run_that_goes_non_finite_stops_and_keeps_the_last_good_model() -> None:
    """With lr = 11 client 1 multiplies w by -10 four times a round, and half of that is the new w."""
    largest = torch.finfo(torch.float32).max
    w, rounds = 1.0, 0
    while all((w * 10**step) ** 2 / 2 <= largest for step in range(4)):
        w, rounds = w * (1 + 10**4) / 2, rounds + 1
    step = next(step for step in range(4) if (w * 10**step) ** 2 / 2 > largest)
    assert (rounds, step) == (5, 1)

    events: list[Event] = []
    with pytest.warns(TrainingWarning) as caught:
        result = explode(11, rounds=50, events=events)
    assert len(result.history) == rounds
    assert result.stopped is not None
    assert result.stopped.startswith("the training loss became inf in round 6, step 2 of 4, client 1; ")
    assert "the model is the one after round 5." in result.stopped
    assert "smaller learning rate" in result.stopped
    assert "\n" not in result.stopped
    assert result.model[1].weight.item() == pytest.approx(w, rel=1e-5)
    assert all(math.isfinite(record.train_loss) for record in result.history)
    assert events[-1] == RunEnded(5, result.stopped)
    assert events[-2] == Warned(result.stopped)
    assert str(caught[-1].message) == result.stopped
    assert all("smofi" in str(warning.filename) or "test_run" in str(warning.filename) for warning in caught)


@pytest.mark.parametrize("method", METHODS)
def test_whatever_the_method_a_huge_learning_rate_stops_the_run(method: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    with pytest.warns(TrainingWarning, match="smaller learning rate"):
        result = smofi.train(
            model, federation([3]), method=method, optimizer=smofi.sgd(lr=1e12, momentum=0.9), **settings(rounds=20)
        )
    assert result.stopped
    assert re.search(r"in round \d+, step \d+ of \d+, client \d+;", result.stopped)
    assert all(bool(p.isfinite().all()) for p in result.model.parameters())
    assert len(result.history) < 20
    if not result.history:
        assert same(result.model, model)


def test_a_global_update_that_goes_non_finite_stops_the_run_too() -> None:
    def update(weights: Tensor, average: Tensor, memory: Tensor, lr: float) -> None:
        weights.fill_(math.nan)

    method = smofi.Method(name="broken", outer=smofi.Outer(update))
    with pytest.warns(TrainingWarning):
        result = smofi.train(perceptron(), federation([3]), method=method, **settings())
    assert result.stopped
    assert "round 1" in result.stopped
    assert result.history == []
    assert same(result.model, perceptron())


def test_statistics_that_go_non_finite_stop_the_run_too() -> None:
    """Inputs of 1e25 are finite in single precision, their variance is not."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    clients = [(1e25 * x.float(), y) for x, y in federation([3])]
    with pytest.warns(TrainingWarning):
        result = smofi.train(model, clients, method="fedavg", **settings())
    assert result.stopped
    assert bool(result.model[1].running_var.isfinite().all())


def test_a_loss_that_diverges_is_warned_of_once() -> None:
    """With lr = 3.2 client 1 multiplies w by -2.2 each step; client 0's losses are zero and halve the mean."""
    w, losses, means = 1.0, [], []
    for _ in range(6):
        losses = [(w * 2.2**step) ** 2 / 2 for step in range(4)]
        means.append(sum(losses) / 8)
        w *= (1 + 2.2**4) / 2
    began = 0.25  # the mean of the two clients' first losses, 0 and 1/2
    due = next(n for n, mean in enumerate(means) if mean > 2 * began + 1)
    assert due == 0

    events: list[Event] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = explode(3.2, rounds=6, events=events)
    assert [record.train_loss for record in result.history] == pytest.approx(means, rel=1e-5)
    assert result.stopped is None
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, TrainingWarning)]
    assert len(warned) == len(caught) == 1
    assert warned == [event.message for event in events if isinstance(event, Warned)]
    assert warned[0].startswith(f"the training loss is {means[0]:.3g} in round 1, up from 0.25 at the start: ")
    assert "try a smaller learning rate, smofi(alpha=-1), or +clip(max_norm=10)" in warned[0]


def test_the_warning_comes_in_the_round_that_deserves_it() -> None:
    """With lr = 2.02 client 1 multiplies w by -1.02; the warning is due when a round's mean loss passes 2 / 4 + 1."""
    w, means = 1.0, []
    for _ in range(30):
        means.append(sum((w * 1.02**step) ** 2 / 2 for step in range(4)) / 8)
        w *= (1 + 1.02**4) / 2
    due = next(n for n, mean in enumerate(means) if mean > 1.5)
    assert 0 < due < 29
    events: list[Event] = []
    with pytest.warns(TrainingWarning) as caught:
        explode(2.02, rounds=30, events=events)
    assert len(caught) == 1
    position = next(i for i, event in enumerate(events) if isinstance(event, Warned))
    before = events[position - 1]
    assert isinstance(before, RoundDone)
    assert before.record.round == due + 1


def test_a_run_that_goes_well_warns_of_nothing() -> None:
    events: list[Event] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smofi.train(convnet(), federation([1, 4, 4]), method="smofi", **settings(rounds=5), callback=events.append)
    assert not [event for event in events if isinstance(event, Warned)]


# Memory


def held(cohort: SimulatedCohort) -> int:
    """The elements of all tensors that the members' segments and the fusion hold, each storage once."""
    tensors: list[Tensor] = []
    for member in cohort.chunk.members.values():
        for segment in [segment for side in member.sides for segment in side]:
            momentum = segment.momentum
            tensors += [segment.weights, segment.gradient, segment.start, *momentum.prior, *momentum.moments]
    fusion = cohort.context.fusion
    if fusion:
        tensors += [value for value in vars(fusion).values() if isinstance(value, Tensor)]
        tensors += [*fusion.vectors.all, *fusion.kept.values()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values()) // tensors[0].element_size()


def padded(numbers: int) -> int:
    """A row in double precision ends at a multiple of 128 bytes."""
    return math.ceil(numbers / 16) * 16


@pytest.mark.parametrize(("optimizer", "moments"), [(smofi.sgd(lr=0.01, momentum=0.9), 1), (smofi.adam(), 2)])
@pytest.mark.parametrize("clients", [2, 7])
def test_smofi_keeps_no_server_momentum_per_active_client(clients: int, optimizer: Any, moments: int) -> None:
    """Rows of weights are one per client, and so is the clients' own momentum; of the server's there is the fused one,
    and one more for each level of the tree, and one. Clients that finish in the same step leave one sum behind."""
    model = perceptron()
    parameters, on_client = 129, 24 + 42
    on_server = parameters - on_client
    data = federation([3], sizes=[8] * (clients - 1) + [12])
    levels = {1: 0, 2: 1, 6: 3, 7: 3}

    def session(method: str) -> Any:
        return smofi.prepare(model, data, method=method, optimizer=optimizer, **settings(participation=1.0))

    weights = (clients + 1) * padded(parameters) + parameters  # a row each, one gradient, and the round's start
    mine = session("smofi")
    plan = mine.run.planner.plan(0)
    cohort = SimulatedCohort(mine.run.simulation, plan)
    next(cohort.ticks())
    begun = weights + moments * (clients * on_client + on_server)
    assert held(cohort) == begun  # vectors are made when they are first used
    for _ in range(2):
        cohort.step([(row,) for row in range(clients)])
        cohort.fuse()
        assert held(cohort) == begun + moments * (1 + levels[clients]) * on_server
    for step in range(2, 6):
        cohort.step([(row,) for row in range(clients) if step < plan.steps[row]])
        cohort.fuse()
    assert sorted(plan.steps) == [4] * (clients - 1) + [6]
    # upon the sum of the one that goes on, that of those that finish first, which is kept
    under_way = max(1 + levels[clients], 2 + levels[clients - 1])
    assert held(cohort) == begun + moments * (under_way + 1) * on_server
    counted = [item for item in round_memory(mine.run.simulation, plan) if item.what.startswith("momentum")]
    assert sum(item.bytes for item in counted) == 8 * (held(cohort) - weights)

    # clients that never meet run one after the other: one row, one gradient, the start, and one momentum for all
    theirs = SimulatedCohort(session("fedavg").run.simulation, plan)
    for tick in theirs.ticks():
        theirs.step(tick.groups)
        assert held(theirs) == 2 * padded(parameters) + (1 + moments) * parameters


def test_what_clients_that_never_meet_add_up_to_is_counted() -> None:
    """One sum for each level of the tree, and one: of 7 clients that is 4, the most that wait for each other."""
    how = settings(participation=1.0, method="fedavg", executor="loop")
    session = smofi.prepare(convnet(), federation([1, 4, 4], sizes=[8] * 7), **how)
    simulation, plan = session.run.simulation, session.run.planner.plan(0)
    cohort = SimulatedCohort(simulation, plan)
    for tick in cohort.ticks():
        cohort.step(tick.groups)
    numbers = sum(vector.numel() for vector in cohort.sums.vectors.all)
    layout = simulation.setup.layout
    assert numbers == 4 * (layout.size + layout.statistics_size)
    assert {item.what: item.bytes for item in round_memory(simulation, plan)}["sums"] == 8 * numbers


def test_one_server_model_is_kept_once() -> None:
    model, data = perceptron(), federation([3], sizes=[8] * 5)
    session = smofi.prepare(
        model, data, method="sflv2", optimizer=smofi.sgd(lr=0.01, momentum=0.9), **settings(participation=1.0)
    )
    cohort = SimulatedCohort(session.run.simulation, session.run.planner.plan(0))
    next(cohort.ticks())
    # the client part five times and the server part once, for weights and for momentum; one gradient; the start
    weights, gradient = 5 * padded(66) + padded(63), padded(66) + padded(63)
    assert held(cohort) == weights + (5 * 66 + 63) + gradient + 129
