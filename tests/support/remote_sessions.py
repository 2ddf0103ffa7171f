"""Small problems, to be trained by a simulation whose split is executed for real, or by clients behind links."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn

import smofi
from reference import Result, convnet, federation, perceptron
from smofi import models
from smofi.engine.passes import direct
from support.local_links import remotely

SGD = "sgd(lr=0.05, momentum=0.9, weight_decay=1e-3, lr_decay=0.9)"
SIZES = (5, 9, 3, 17, 13, 8)
"""With batches of 4: one client takes a single step an epoch, one never takes part."""


@cache
def digits() -> Any:
    return smofi.data.load("digits", max_train=160, max_test=40)


def on_digits(method: str, **changes: Any) -> smofi.Session:
    """A small network with batch normalisation, in float32; the numbers of steps differ."""
    source = digits()
    parts = smofi.data.partition(source.train.labels, clients=8, how="dirichlet(0.5)", min_size=8)
    given = {key: changes.pop(key) for key in ("model", "norm") if key in changes}
    name = given.pop("model", "resnet8")
    model = models.build(name, seed=1, input_shape=source.input_shape, classes=10, width=4, **given)
    settings: dict[str, Any] = dict(optimizer=SGD, cut=1, rounds=2, participation=0.6, local_epochs=1, batch_size=8)
    clients = [source.train[part] for part in parts]
    return smofi.prepare(model, clients, source.test, method=method, **{"wire": direct} | settings | changes)


def on_text(method: str, **changes: Any) -> smofi.Session:
    """A small transformer with dropout, on characters that mean nothing."""
    draw = torch.Generator().manual_seed(1)
    clients = [
        (torch.randint(12, (size, 5), generator=draw), torch.randint(12, (size,), generator=draw)) for size in SIZES
    ]
    model = models.build("transformer", seed=1, input_shape=(5,), classes=12, width=8)
    settings: dict[str, Any] = dict(optimizer=SGD, cut=1, rounds=2, participation=0.6, local_epochs=1, batch_size=4)
    return smofi.prepare(model, clients, method=method, **{"wire": direct} | settings | changes)


def exact(method: Any, model: Any = perceptron, sizes: Any = SIZES, **changes: Any) -> smofi.Session:
    """A network of `reference.py` in float64, and its clients."""
    shape = [1, 4, 4] if model is convnet else [3]
    settings: dict[str, Any] = dict(cut=1, rounds=3, participation=0.5, local_epochs=2, batch_size=4, seed=5)
    return smofi.prepare(model(), federation(shape, sizes), method=method, **{"wire": direct} | settings | changes)


def same_bits(one: smofi.Session, other: smofi.Session) -> None:
    """Train both, and compare all that lasts, and the losses on the way."""
    one.train()
    other.train()
    theirs = other.run.state.tensors()
    for name, mine in one.run.state.tensors().items():
        assert torch.equal(mine, theirs[name]), name
    for mine_, their in zip(one.run.history, other.run.history, strict=True):
        assert (mine_.train_loss, mine_.loss, mine_.accuracy) == (their.train_loss, their.loss, their.accuracy)
        assert (mine_.selected, mine_.steps, mine_.cut) == (their.selected, their.steps, their.cut)


def check_same(prepare: Any, method: str, **changes: Any) -> None:
    """Behind links, the bits are those of the simulation."""
    remote = prepare(method, **changes)
    links = remotely(remote)
    same_bits(remote, prepare(method, **changes))
    assert links.bytes
    assert not links.rested


def distance(model: nn.Module, result: Result) -> float:
    """The largest difference in any weight or BatchNorm statistic."""
    state, expected = model.state_dict(), {**result.weights, **result.statistics}
    assert expected.keys() == {name for name, value in state.items() if value.is_floating_point()}
    return max(float((state[name] - value).abs().max()) for name, value in expected.items())
