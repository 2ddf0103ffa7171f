"""Local steps against `torch.optim` itself: one client and FedAvg is a plain training loop on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import smofi
from reference import convnet, federation, perceptron
from smofi.data import batch_order
from smofi.optim import parse_optimizer

torch.set_num_threads(1)

SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS: list[tuple[Callable[..., Any], Callable[..., torch.optim.Optimizer], dict[str, Any]]] = [
    (smofi.sgd, SGD, dict(lr=0.1)),
    (smofi.sgd, SGD, dict(lr=0.1, weight_decay=0.05)),
    (smofi.sgd, SGD, dict(lr=0.03, momentum=0.9)),
    (smofi.sgd, SGD, dict(lr=0.03, momentum=0.9, weight_decay=0.05)),
    (smofi.sgd, SGD, dict(lr=0.03, momentum=0.9, nesterov=True)),
    (smofi.sgd, SGD, dict(lr=0.03, momentum=0.7, nesterov=True, weight_decay=0.05)),
    (smofi.adam, Adam, dict(lr=0.01)),
    (smofi.adam, Adam, dict(lr=0.01, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.05)),
    (smofi.adamw, AdamW, dict(lr=0.01)),
    (smofi.adamw, AdamW, dict(lr=0.01, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.3)),
]
NAMES = [f"{ours.__name__}({', '.join(f'{k}={v}' for k, v in settings.items())})" for ours, _, settings in OPTIMIZERS]


def loop(
    model: nn.Sequential, x: torch.Tensor, y: torch.Tensor, epochs: int, optimizers: Iterable[torch.optim.Optimizer]
) -> None:
    """Train in place, one optimizer after the other, on the batches that rounds 0, 1, … of client 0 see."""
    model.train()
    for n, optimizer in enumerate(optimizers):
        for rows in batch_order(len(x), 4, epochs * (len(x) // 4), seed=2, round=n, client=0):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


def largest_difference(a: nn.Module, b: nn.Module) -> float:
    states = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((left - right).abs().max()) for left, right in states if left.is_floating_point())


@pytest.mark.parametrize(("ours", "theirs", "settings"), OPTIMIZERS, ids=NAMES)
def test_hundreds_of_steps_equal_torch_optim(ours: Any, theirs: Any, settings: dict[str, Any]) -> None:
    model, ((x, y),) = perceptron(), federation([3], sizes=(42,))
    expected = copy.deepcopy(model)
    loop(expected, x, y, 30, [theirs(expected.parameters(), **settings)])
    got = smofi.train(
        model,
        [(x, y)],
        method="fedavg",
        optimizer=ours(**settings),
        rounds=1,
        participation=1.0,
        local_epochs=30,
        batch_size=4,
        seed=2,
    )
    assert got.history[0].steps == [300]
    assert largest_difference(got.model, expected) < 1e-10
    assert largest_difference(got.model, model) > 0.1


@pytest.mark.parametrize(("ours", "theirs", "settings"), OPTIMIZERS, ids=NAMES)
def test_rounds_decay_the_learning_rate_and_reset_the_optimizer(
    ours: Any, theirs: Any, settings: dict[str, Any]
) -> None:
    model, ((x, y),) = convnet(), federation([1, 4, 4], sizes=(18,))
    expected = copy.deepcopy(model)
    rates = [settings["lr"] * 0.7**n for n in range(3)]
    loop(expected, x, y, 3, (theirs(expected.parameters(), **{**settings, "lr": rate}) for rate in rates))
    got = smofi.train(
        model,
        [(x, y)],
        method="fedavg",
        optimizer=ours(**settings, lr_decay=0.7),
        rounds=3,
        participation=1.0,
        local_epochs=3,
        batch_size=4,
        seed=2,
    )
    assert [record.learning_rate for record in got.history] == pytest.approx(rates, rel=1e-12)
    assert largest_difference(got.model, expected) < 1e-10


def test_adamw_decays_as_much_as_torchs_unless_told() -> None:
    ours, (theirs,) = smofi.adamw(), AdamW([nn.Parameter(torch.zeros(1))]).param_groups
    assert ours.weight_decay == theirs["weight_decay"] == 0.01
    assert smofi.adam().weight_decay == 0


@pytest.mark.parametrize("method", ["fedavg", "smofi"])
def test_adamw_without_weight_decay_is_adam(method: str) -> None:
    settings: dict[str, Any] = dict(rounds=2, participation=1.0, local_epochs=2, batch_size=4, seed=2, cut=1)

    def trained(optimizer: str) -> nn.Module:
        return smofi.train(convnet(), federation([1, 4, 4]), method=method, optimizer=optimizer, **settings).model

    assert largest_difference(trained("adamw(weight_decay=0)"), trained("adam")) == 0
    assert largest_difference(trained("adamw"), trained("adam")) > 0


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_the_old_name_of_lr_decay_is_refused_with_a_hint(name: str) -> None:
    sentence = "decay=0.9 is not accepted: decay is now lr_decay, the factor on the learning rate per round"
    with pytest.raises(smofi.InputError) as in_python:
        getattr(smofi, name)(lr=0.1, decay=0.9)
    with pytest.raises(smofi.InputError) as in_a_string:
        parse_optimizer(f"{name}(lr=0.1, decay=0.9)")
    assert str(in_python.value) == str(in_a_string.value) == sentence
