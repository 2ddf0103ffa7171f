"""Whole runs: what a callback sees, the same bits twice, what is accepted as data, and how runs end that go wrong."""

from __future__ import annotations

import copy
import math
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import smofi
from reference import Weight, convnet, federation, perceptron
from smofi import RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, TrainingWarning, Warned

METHODS = ["fedavg", "fedprox(0.1)+smofi", "slowmo(0.5, 0.4)", "fednag", "sflv1", "sflv2('step')", "mergesfl"]


def settings(**changes: Any) -> dict[str, Any]:
    return {"rounds": 3, "participation": 0.5, "local_epochs": 2, "batch_size": 4, "seed": 5, "cut": 1, **changes}


def same(a: nn.Module, b: nn.Module) -> bool:
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# ----------------------------------------------------------------------------------------------------------- the events


@pytest.mark.parametrize("method", ["smofi", "sflv2"])
def test_a_callback_sees_every_event_in_order(method: str) -> None:
    events: list[smofi.Event] = []
    clock = smofi.Timing("full", step_deadline=9.0)
    result = smofi.train(
        convnet(), federation([1, 4, 4]), method=method, **settings(rounds=2), clock=clock, callback=events.append
    )
    first, last = events[0], events[-1]
    assert isinstance(first, RunStarted)
    assert (first.rounds, first.clients, first.eligible, first.per_round, first.parameters) == (2, 6, 5, 3, 468)
    assert last == RunEnded(2, None)
    remarks = [event for event in events if isinstance(event, Warned)]
    assert [remark.message.split(" changes nothing")[0] for remark in remarks] == ["step_deadline"] * (
        method == "sflv2"
    )
    assert remarks == events[1 : 1 + len(remarks)]
    expected: list[smofi.Event] = []
    for record in result.history:
        ticks = sum(record.steps) if method == "sflv2" else max(record.steps)
        expected.append(RoundStarted(record.round, record.selected, record.steps))
        expected += [TickDone(record.round, tick) for tick in range(ticks)]
        expected.append(RoundDone(record))
    assert events[1 + len(remarks) : -1] == expected


def test_an_exception_in_a_callback_ends_the_run() -> None:
    def fail(event: smofi.Event) -> None:
        if isinstance(event, RoundDone):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        smofi.train(perceptron(), federation([3]), **settings(), callback=fail)


# ------------------------------------------------------------------------------------------------------------- the bits


def with_dropout() -> nn.Sequential:
    torch.manual_seed(3)
    hidden = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.4)) for _ in range(2)]
    return nn.Sequential(nn.Linear(3, 8), *hidden, nn.BatchNorm1d(8), nn.Linear(8, 3))


@pytest.mark.parametrize(("method", "cut"), [*((method, 1) for method in METHODS), ("smofi", "0-2")], ids=str)
def test_the_same_seed_gives_the_same_bits_and_touches_no_random_state(method: str, cut: Any) -> None:
    model, clients = with_dropout(), federation([3])

    def final(seed: int, rounds: int = 2) -> smofi.Result:
        return smofi.train(model, clients, clients[3], method=method, **settings(rounds=rounds, cut=cut, seed=seed))

    torch.manual_seed(0)
    first = final(seed=5)
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    assert same(first.model, final(seed=5).model), "it depends on the caller's random state"
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]
    assert not same(first.model, final(seed=6).model)
    longer = final(seed=5, rounds=3).history
    assert [one.train_loss for one in longer[:2]] == [one.train_loss for one in first.history]


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_the_callers_model_and_data_are_unchanged_and_a_frozen_part_stays(method: str) -> None:
    model, clients = convnet().eval(), federation([1, 4, 4])
    model[1].requires_grad_(False)
    before, data = copy.deepcopy(model), copy.deepcopy(clients)
    model[0][0].weight.grad = torch.ones_like(model[0][0].weight)
    result = smofi.train(model, clients, clients[3], method=method, **settings())
    assert same(model, before)
    assert not model.training
    assert model[0][0].weight.grad.unique().tolist() == [1]
    assert all(
        torch.equal(*pair) for one, other in zip(clients, data, strict=True) for pair in zip(one, other, strict=True)
    )
    assert same(result.model[1][0], before[1][0])
    assert [p.requires_grad for p in result.model.parameters()] == [p.requires_grad for p in before.parameters()]
    assert not same(result.model, before)


@pytest.mark.parametrize("shape", [[3], [3, 18, 18]], ids=["vectors", "images"])
def test_however_clients_are_given_the_bits_are_the_same(shape: list[int]) -> None:
    model = perceptron().float()
    if len(shape) == 3:
        torch.manual_seed(0)
        pool = nn.AdaptiveAvgPool2d(2)
        model = nn.Sequential(nn.Conv2d(shape[0], 8, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(32, 3))
    tensors = [(x.float(), y) for x, y in federation(shape)]
    datasets = [TensorDataset(*pair) for pair in tensors]
    lists = [[(x_i, int(y_i)) for x_i, y_i in zip(x, y, strict=True)] for x, y in tensors]
    arrays = [(x.numpy(), y.numpy()) for x, y in tensors]
    for method in ("smofi", "mergesfl"):
        found = [
            smofi.train(model, clients, clients[3], method=method, **settings(rounds=2))
            for clients in (tensors, datasets, lists, arrays)
        ]
        for other in found[1:]:
            assert same(found[0].model, other.model)
            assert [record.loss for record in found[0].history] == [record.loss for record in other.history]


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_everything_is_computed_in_the_models_type(method: str) -> None:
    doubles = [(x.float().double(), y) for x, y in federation([3])]
    result = smofi.train(perceptron(), doubles, method=method, **settings())
    single = smofi.train(perceptron().float(), doubles, method=method, **settings()).model
    assert {p.dtype for p in result.model.parameters()} == {torch.float64}
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    difference = max((a - b).abs().max() for a, b in zip(single.parameters(), result.model.parameters(), strict=True))
    assert 1e-9 < difference < 1e-4


# ------------------------------------------------------------------------------------------------- runs that go wrong


def explode(lr: float, rounds: int, events: list[smofi.Event]) -> smofi.Result:
    """Prediction w x, loss (w x)²/2: client 0 has x = 0 and stays, client 1 has x = 1 and gets w (1 - lr) each step."""
    zeros, ones = torch.zeros(4), torch.ones(4)
    return smofi.train(
        *(nn.Sequential(nn.Identity(), Weight()), [(zeros, zeros), (ones, zeros)]),
        method="fedavg", optimizer=smofi.sgd(lr=lr), metrics=(),
        loss=lambda output, target: (output - target).square().mean() / 2,
        **settings(cut=0, rounds=rounds, participation=1.0, local_epochs=4, batch_size=4), callback=events.append,
    )  # fmt: skip


def test_a_run_that_goes_non_finite_stops_and_keeps_the_last_good_model() -> None:
    """With lr = 11 client 1 multiplies w by -10 four times a round, and half of that is the new w."""
    largest = torch.finfo(torch.float32).max
    w, rounds = 1.0, 0
    while all((w * 10**step) ** 2 / 2 <= largest for step in range(4)):
        w, rounds = w * (1 + 10**4) / 2, rounds + 1
    events: list[smofi.Event] = []
    with pytest.warns(TrainingWarning) as caught:
        result = explode(11, rounds=50, events=events)
    assert len(result.history) == rounds == 5
    assert result.diverged
    assert str(result.stopped).startswith("the training loss became inf in round 6, step 2 of 4, client 1; ")
    assert result.model[1].weight.item() == pytest.approx(w, rel=1e-5)
    assert all(math.isfinite(record.train_loss) for record in result.history)
    assert events[-2:] == [Warned(result.stopped), RunEnded(5, result.stopped)]
    assert str(caught[-1].message) == result.stopped


@pytest.mark.parametrize("method", METHODS)
def test_whatever_the_method_a_huge_learning_rate_stops_the_run(method: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    with pytest.warns(TrainingWarning, match="smaller learning rate"):
        result = smofi.train(
            model, federation([3]), method=method, optimizer=smofi.sgd(lr=1e12, momentum=0.9), **settings(rounds=20)
        )
    assert result.diverged
    assert len(result.history) < 20
    assert all(bool(p.isfinite().all()) for p in result.model.parameters())
    assert result.history or same(result.model, model)


def test_a_global_update_or_statistics_that_go_non_finite_stop_the_run_too() -> None:
    def update(weights: Tensor, average: Tensor, memory: Tensor, lr: float) -> None:
        weights.fill_(math.nan)

    method = smofi.Method(name="broken", outer=smofi.Outer(update))
    with pytest.warns(TrainingWarning, match="round 1"):
        result = smofi.train(perceptron(), federation([3]), method=method, **settings())
    assert result.history == []
    assert same(result.model, perceptron())
    # inputs of 1e25 are finite in single precision, their variance is not
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.warns(TrainingWarning):
        result = smofi.train(model, [(1e25 * x.float(), y) for x, y in federation([3])], **settings())
    assert result.diverged
    assert bool(result.model[1].running_var.isfinite().all())


def test_a_client_whose_numbers_explode_is_named() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    names = {"client_names": ["north", "south"], "optimizer": "sgd(lr=1e200)", "participation": 1.0}
    with pytest.warns(TrainingWarning, match=r"client 0 \(north\); the model is the one after round 0"):
        smofi.train(convnet(), clients, **settings(**names))


@pytest.mark.parametrize(("lr", "factor", "rounds"), [(3.2, 2.2, 6), (2.02, 1.02, 30)])
def test_a_loss_that_diverges_is_warned_of_once_in_the_round_that_deserves_it(
    lr: float, factor: float, rounds: int
) -> None:
    """Client 1 multiplies w by -factor each step, client 0's losses are zero and halve the mean, which is 1/4 at first:
    a warning is due when a round's mean passes 2 / 4 + 1."""
    w, means = 1.0, []
    for _ in range(rounds):
        means.append(sum((w * factor**step) ** 2 / 2 for step in range(4)) / 8)
        w *= (1 + factor**4) / 2
    due = next(n for n, mean in enumerate(means) if mean > 1.5)
    events: list[smofi.Event] = []
    with pytest.warns(TrainingWarning) as caught:
        result = explode(lr, rounds, events)
    assert [record.train_loss for record in result.history] == pytest.approx(means, rel=1e-5)
    assert result.stopped is None
    (place,) = (number for number, event in enumerate(events) if isinstance(event, Warned))
    assert events[place - 1] == RoundDone(result.history[due])
    assert [str(one.message) for one in caught] == [vars(events[place])["message"]]
    assert str(caught[0].message).startswith(f"the training loss is {means[due]:.3g} in round {due + 1}, up from 0.25")


def test_a_run_that_goes_well_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smofi.train(convnet(), federation([1, 4, 4]), method="smofi", **settings(rounds=5))


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(({"eval_every": one}, "expected a whole number >= 1") for one in (0, 1.5, "2")),
        *(({"server_threads": one}, "server_threads=") for one in (0, 1.5, "two", 5000)),
        ({"executor": "gpu"}, "expected one of auto, loop, vmap"),
        ({"executor": ["loop"]}, "vmap\\(at_least=3\\)"),
        ({"precision": "fp8"}, "expected one of float32, bf16"),
        ({"compile": "yes"}, "expected True or False"),
        ({"memory_limit": "much"}, "expected a number of bytes, or a size such as 500MB"),
        ({"wire": "fp8"}, "expected one of fp32, fp16, bf16, int8, float16"),
        ({"metrics": ["top1", "topp1"]}, r"expected one of top1, macro_f1, .* \(did you mean 'top1'\?\)"),
        ({"metrics": ["top1", 5]}, "metrics=5 is not accepted: expected one of top1"),
        ({"target_accuracy": 90}, "target_accuracy=90 is not accepted: expected a number > 0 and <= 1"),
        ({"client_names": ["north"]}, "client_names is not accepted: expected a list with one entry for each"),
        ({"client_tests": [None]}, "client_tests is not accepted: expected a list with one entry for each"),
        ({"client_names": ["north", *"abcd", "north"]}, "expected a name of its own for each client"),
        ({"client_tests": [*[None] * 5, 7]}, r"client_tests\[5\] is not accepted: expected a pair of tensors"),
    ],
    ids=str,
)
def test_what_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    clients = federation([1, 4, 4])
    with pytest.raises(smofi.InputError, match=sentence):
        smofi.train(convnet(), clients, clients[3], **settings(**wrong))
