"""`smofi.train`: what is refused, before any work and in a sentence, and what a run gives back."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, one_hot
from torch.utils.data import TensorDataset

import smofi
from reference import convnet, federation, perceptron
from smofi import InputError, data, experiment, export, models
from smofi.config import Config
from smofi.engine.events import Event

X, Y = federation([3], sizes=(12,))[0]
CLIENTS = federation([3], sizes=(9, 5, 13))


def train(**changes: Any) -> smofi.Result:
    settings = dict(method="fedavg", rounds=1, participation=1.0, local_epochs=1, batch_size=4)
    return smofi.train(**dict(model=perceptron(), clients=CLIENTS, test=(X, Y)) | settings | changes)


def refusal(**changes: Any) -> str:
    """The sentence with which these arguments are refused, before anything has happened."""
    events: list[Event] = []
    with pytest.raises(InputError) as caught:
        train(**changes, callback=events.append)
    assert events == []
    return str(caught.value)


def same(a: smofi.Result, b: smofi.Result) -> bool:
    return all(map(torch.equal, a.model.parameters(), b.model.parameters()))


# -------------------------------------------------------------------------------------------------------------- refused


def blocks(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), *between, nn.Linear(4, 3)).double()


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class First(nn.Module):
    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        return pair[0]


class Statistics(nn.Module):
    """A block that sums what it sees, in place or not, in a buffer of this type."""

    def __init__(self, dtype: torch.dtype, in_place: bool) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, dtype=dtype))
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.in_place:
            self.seen += 1
        elif self.training:
            self.seen = self.seen + x.detach().mean(0)
        return x


def with_targets(*first: int) -> Tensor:
    return torch.cat([torch.tensor(first), Y[len(first) :]])


NOT_FINITE = (torch.cat([X[:-1], torch.full((1, 3), math.nan)]), Y)
WIDE = (torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        # numbers
        *((dict(rounds=value), f"rounds={value!r} is not accepted: expected a whole number >= 1")
          for value in (0, 1.0, "5", None, True, math.nan)),
        (dict(local_epochs=0), "local_epochs=0 is not accepted: expected a whole number >= 1 and <= 100000"),
        (dict(seed=-1), "seed=-1 is not accepted: expected a whole number >= 0"),
        *((dict(participation=value), f"participation={value!r} is not accepted: expected a number > 0 and <= 1")
          for value in (0, 1.01, math.nan, math.inf, "half", None, True)),
        # a method, an optimizer and others, as strings or values
        *((dict(method=value), 'expected a string such as "smofi" or a value such as smofi.methods.smofi()')
          for value in (5, None, smofi.methods.smofi, ["smofi"])),
        *((dict(optimizer=value), "expected a string or a value such as smofi.sgd(lr=0.05, momentum=0.9)")
          for value in (0.1, torch.optim.SGD, smofi.sgd)),
        (dict(method="fedprox(mu=-1)"), "method='fedprox(mu=-1)': fedprox: mu=-1 is not accepted: expected a number"),
        (dict(optimizer="sgd(lr=0)"), "optimizer='sgd(lr=0)': lr=0 is not accepted: expected a number > 0"),
        (dict(wire=5), "wire=5 is not accepted: expected fp32, fp16, bf16, int8, float16, a function, or None"),
        (dict(augment=5), 'augment=5 is not accepted: expected a string such as "crop(4)+flip", or None'),
        (dict(clock=5), 'clock=5 is not accepted: expected "none", "paper", "full", or a smofi.Timing'),
        *((dict(device=value), f"device={value!r} is not accepted: expected a device that torch can use")
          for value in ("gpu", "cuda:99", "meta", "")),
        # cuts and speeds
        (dict(cut=3), "cut=3 is not accepted: expected 0 <= L <= 2 core blocks on the client"),
        (dict(cut=[0, 1]), "one cut for each of the 3 clients, but it has 2"),
        (dict(cut=[0, 1, 2], method="sflv2"), "expected one cut for all clients: sflv2 keeps a single server model"),
        (dict(method="mergesfl", speeds=[1.0]), "expected 3 numbers, one for each client, but it has 1"),
        *((dict(speeds=[1.0, value, 1.0]), f"speeds={value!r} is not accepted: expected a number > 0")
          for value in (0, math.nan, "fast", None)),
        # clients
        *((dict(clients=value), "is not accepted: expected a list with one entry per client")
          for value in ([], 5, None, (X, Y), {"a": (X, Y)}, (one for one in CLIENTS), data.load("digits").train)),
        (dict(clients=[(X, Y), (X, Y[:-1])]), "clients[1] is not accepted: expected as many inputs as targets, but it "
         "has inputs of shape (12, 3) and targets of shape (11,)"),
        (dict(clients=[(torch.tensor(1.0), torch.tensor(1))]), "clients[0] is not accepted: expected as many inputs"),
        *((dict(clients=[(X, Y), value]), "clients[1] is not accepted: expected a pair of tensors (inputs, targets)")
          for value in (object(), None, 5, "digits", {"x": X}, X, (X.tolist(), Y.tolist()), data.load("digits"))),
        (dict(clients=[[1.0, 2.0, 3.0, 4.0, 5.0]]), "clients[0]"),
        (dict(clients=[*CLIENTS, WIDE]), "clients[3] is not accepted: its inputs have shape (4,), but those of "
         "clients[0] have (3,)"),
        (dict(clients=[(X, Y), NOT_FINITE]), "clients[1] is not accepted: its inputs contain values that are not"),
        (dict(clients=[(X, Y[:, None])]), "expected one class per sample, but each has targets of shape (1,); try "
         "targets.squeeze(1)"),
        (dict(clients=[(X, one_hot(Y))]), "targets of shape (3,); try targets.argmax(1)"),
        (dict(batch_size=14), "batch_size=14 is not accepted: expected at most 13, the largest client's number of"),
        # data held out
        (dict(test=(X, Y[:3])), "test is not accepted: expected as many inputs as targets"),
        (dict(test=WIDE), "test is not accepted: its inputs have shape (4,), but those of clients[0] have (3,)"),
        (dict(test=NOT_FINITE), "test is not accepted: its inputs contain values that are not finite numbers"),
        *((dict(test=value), "expected at least one sample, or None") for value in ((X[:0], Y[:0]), [])),
        # the model
        (dict(model=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)).double(), cut=0), "model is not accepted with this "
         "loss and metrics: "),
        (dict(model=blocks(nn.BatchNorm1d(4)), batch_size=1), "model is not accepted: with cut 1 a training step on 1 "
         "samples of clients[0] fails: "),
        (dict(model=blocks(Pair(), First()), cut="0-2"), "model is not accepted: with cut 1 a training step"),
        (dict(model=nn.Linear(3, 3)), "model=Linear is not accepted: expected an nn.Sequential of blocks"),
        (dict(model=nn.Sequential(nn.Linear(3, 3))), "at least two blocks"),
        (dict(model=nn.Sequential(perceptron())), "and it has 1, which is one itself: give that"),
        (dict(model=nn.Sequential(Statistics(torch.float64, False), *blocks())), "model is not accepted: 0.seen is "
         "replaced in training; change it in place instead"),
        (dict(model=nn.Sequential(Statistics(torch.int64, True), *blocks())), "model is not accepted: the buffer "
         "0.seen (torch.int64) changes in training and cannot be averaged"),
        # loss and metrics
        (dict(loss=lambda output, target: (output - target).mean()), "is not accepted"),
        (dict(loss=nn.CrossEntropyLoss), "expected a function of (outputs, targets), such as nn.CrossEntropyLoss()"),
        *((dict(metrics=["top1", value]), f"metrics={value!r} is not accepted: expected one of top1, macro_f1")
          for value in ("accuracy", 7)),
        (dict(metrics=[lambda outputs, targets: 1 / 0]), "division by zero"),
        (dict(patience=3), "patience=3 is not accepted: expected validation data as well, or None"),
    ],
)  # fmt: skip
def test_what_is_refused(changes: dict[str, Any], sentence: str) -> None:
    message = refusal(**changes)
    assert sentence in message
    assert "is not accepted" in message
    assert "\n" not in message


@pytest.mark.parametrize("place", ["clients[0]", "clients[3]", "test", "validation"])
@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss()], ids=["function", "module"])
def test_targets_are_classes_that_the_model_has(loss: Any, place: str) -> None:
    for targets, problem in (
        (with_targets(3, 0, 1, 2), "range from 0 to 3, but the model has 3 outputs, for targets from 0 to 2"),
        (with_targets(-1, 2, 0, 1), "range from -1 to 2, but the model has 3 outputs, for targets from 0 to 2"),
        (Y.double(), "are of type float64, but the model has 3 outputs"),
        (Y.bool(), "are of type bool, but the model has 3 outputs"),
    ):
        for wrong in [(X, targets)] if place == "clients[3]" else [(X, targets), TensorDataset(X, targets)]:
            given = {"clients": [*CLIENTS, wrong]} if place == "clients[3]" else {place: wrong}
            given = {"clients": [wrong, *CLIENTS]} if place == "clients[0]" else given
            assert refusal(**given, loss=loss).startswith(f"{place} is not accepted: its targets {problem}")


THINGS: tuple[Any, ...] = (
    torch.arange(2000.0).reshape(500, 4),
    np.arange(90.0).reshape(30, 3),
    [torch.arange(36.0).reshape(6, 6)] * 30,
    {"a": torch.arange(400.0).reshape(20, 20)},
    nn.Linear(300, 300),
    10**400,
    "a\0b",
    Path("a\0b"),
    object(),
    data.load("digits"),
)
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "train": (smofi.train, dict(model=perceptron(), clients=CLIENTS, test=(X, Y), batch_size=4, rounds=1)),
    "load": (data.load, dict(name="digits")),
    "partition": (data.partition, dict(labels=Y, clients=2, min_size=1)),
    "build": (models.build, dict(name="mlp", seed=0, input_shape=(4,), classes=2)),
}
FINE = {("memory_limit", int), ("labels", Tensor), *((name, nn.Linear) for name in ("callback", "on_round", "loss"))}
FINE |= {("wire", nn.Linear), ("progress", nn.Linear)}
"""What may be given: a limit beyond all memory, and a model wherever a function may stand."""


@pytest.mark.parametrize(
    ("call", "name"),
    [(call, name) for call in CALLS for name in inspect.signature(CALLS[call][0]).parameters if name != "owners"],
)
def test_whatever_is_handed_over_is_described_and_never_printed(call: str, name: str) -> None:
    function, arguments = CALLS[call]
    for thing in THINGS:
        if (name, type(thing)) not in FINE:
            with pytest.raises(InputError) as refused:
                function(**arguments | {name: thing})
            sentence = str(refused.value)
            assert not any(word in sentence for word in ("\n", "tensor(", "array(", "object at 0x")), sentence
            assert len(sentence) < 800


@pytest.mark.parametrize("call", [smofi.train, smofi.prepare])
def test_wrong_names_of_arguments_are_named(call: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        call(perceptron(), CLIENTS, epochs=1)
    with pytest.raises(TypeError, match=r"missing .* argument: 'clients'"):
        call(perceptron())
    with pytest.raises(TypeError, match="positional arguments"):
        call(perceptron(), CLIENTS, None, 10)


@pytest.mark.parametrize("path", ["a\0b", Path("a\0b")], ids=["text", "path"])
def test_a_path_with_a_nul_is_refused(path: Any) -> None:
    for call in (
        lambda: experiment.start(Config(), path),
        lambda: experiment.resume(path, {}),
        lambda: export.export_run(path, "exported"),
        lambda: export.export_run("runs/mine", path),
        lambda: data.load("cifar10", folder=path),
    ):
        with pytest.raises(InputError, match=r"^\w+=.*a\\x00b'\)? is not accepted: expected a path without NUL"):
            call()


# ------------------------------------------------------------------------------------------------------------- accepted


def test_methods_optimizers_and_numbers_may_be_strings_or_values() -> None:
    as_strings = train(method="fedprox(0.1)", optimizer="sgd(lr=0.1, momentum=0.5)", rounds=2, seed=3)
    values = dict(method=smofi.methods.fedprox(mu=0.1), optimizer=smofi.sgd(lr=0.1, momentum=0.5))
    numbers = dict(rounds=np.int64(2), batch_size=np.int32(4), participation=np.float32(1), seed=np.uint8(3))
    assert same(as_strings, train(**values, **numbers))


def test_classes_may_be_whole_numbers_of_any_type_and_probabilities() -> None:
    wanted = train(clients=[(X, Y)])
    for dtype in (torch.int8, torch.int32, torch.uint8):
        assert same(train(clients=[(X, Y.to(dtype))], test=(X, Y.to(dtype))), wanted)
    assert len(train(clients=[(X, one_hot(Y).double())], test=None).history) == 1


def test_speeds_may_be_an_array() -> None:
    result = train(method="mergesfl", speeds=np.array([1.0, 0.5, 1.0]))
    assert result.history[0].steps == [9 // 4, 5 // 2, 13 // 4]


def test_clients_without_a_batch_never_take_part() -> None:
    assert train(clients=[(X[:0], Y[:0]), (X, Y), (X[:3], Y[:3])]).history[0].selected == [1]
    assert train(batch_size=13).history[0].selected == [2]


def test_any_module_becomes_blocks() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 4).double(), nn.Linear(4, 3).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))  # type: ignore[no-any-return]

    assert refusal(model=Plain()).endswith("smofi.blocks(model, ['first', 'second'], sample=inputs)")
    assert len(train(model=smofi.blocks(Plain(), ["first", "second"], sample=X), cut=0).history) == 1


def test_regression_needs_no_classes() -> None:
    """Without test data nothing is evaluated, so the accuracy, which is measured by default, does no harm."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0)).double()
    settings: dict[str, Any] = dict(model=model, clients=[(X, X.sum(1))], loss=mse_loss)
    result = train(**settings, test=(X, X.sum(1)), metrics=())
    assert result.history[0].loss == pytest.approx(mse_loss(result.model(X), X.sum(1)).item())
    assert result.history[0].accuracy is None
    assert train(**settings, test=None).history[0].loss is None


# ----------------------------------------------------------------------------------------------------- what comes back


def test_a_record_says_what_a_round_did() -> None:
    result = train(
        rounds=3, participation=0.67, optimizer="sgd(lr=0.1, momentum=0.9, lr_decay=0.5)", cut=(0, 1), seed=4
    )
    assert [record.round for record in result.history] == [1, 2, 3]
    for n, record in enumerate(result.history):
        assert len(record.selected) == 2
        assert record.selected == sorted(record.selected)
        assert record.steps == [{0: 2, 1: 1, 2: 3}[client] for client in record.selected]
        assert record.learning_rate == pytest.approx(0.1 * 0.5**n)
        assert record.cut == "0,1"
        assert record.seconds > 0
        assert record.metrics == {"top1": record.accuracy}
        assert 0 <= (record.accuracy or 0) <= 1
        assert min(record.loss or 0, record.train_loss or 0) > 0
    assert result.stopped is None


def test_a_record_names_all_the_cuts_of_its_round() -> None:
    assert train(cut=[0, (0, 1), 2]).history[0].cut == "0 0,1 2"
    assert train(cut=[1, 1, 1], method="mergesfl").history[0].cut == "1"
    assert {record.cut for record in train(cut="0-2", rounds=12).history} == {"0", "1", "2"}


def test_the_result_is_a_model_of_the_same_kind_in_eval_mode() -> None:
    model = convnet().train()
    result = train(model=model, clients=federation([1, 4, 4]), test=None)
    assert result.model.state_dict().keys() == model.state_dict().keys()
    assert not any(module.training for module in result.model.modules())
    assert all(module.training for module in model.modules())
    result.model(torch.zeros(2, 1, 4, 4, dtype=torch.float64)).sum().backward()


def test_a_session_is_checked_and_not_yet_trained() -> None:
    events: list[Event] = []
    session = smofi.prepare(perceptron(), CLIENTS, rounds=1, participation=1.0, batch_size=4, callback=events.append)
    assert events == []
    assert repr(session) == "Session(smofi, 3 clients, 0 of 1 rounds done)"
    assert len(session.train().history) == 1
    assert [record.round for record in session.train().history] == [1], "a run that is over is not trained on"
    stopped = train(target_accuracy=1e-9)
    assert (
        repr(stopped) == f"Result(1 round, accuracy {stopped.history[0].accuracy:.4g} after round 1, {stopped.stopped})"
    )
