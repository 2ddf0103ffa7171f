"""Whatever Python hands over is refused in one short sentence: data and models are described, never printed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import smofi
from smofi import InputError, data, experiment, export, models
from smofi.config import Config
from smofi.errors import shown

X, Y = torch.arange(48.0).reshape(12, 4) / 48, torch.arange(12) % 2
MODEL = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

THINGS: dict[str, Any] = {
    "tensor": torch.arange(2000.0).reshape(500, 4),
    "array": np.arange(90.0).reshape(30, 3),
    "tensors": [torch.arange(36.0).reshape(6, 6)] * 30,
    "dict": {"a": torch.arange(400.0).reshape(20, 20)},
    "model": nn.Linear(300, 300),
    "number": 10**400,
    "NUL": "a\0b",
    "path": Path("a\0b"),
    "object": object(),
    "source": data.load("digits"),
}

CALLS: dict[str, tuple[Any, dict[str, Any], set[str]]] = {
    "train": (smofi.train, dict(model=MODEL, clients=[(X, Y)], test=(X, Y), batch_size=4, rounds=1), set()),
    "load": (data.load, dict(name="digits"), set()),
    "partition": (data.partition, dict(labels=Y, clients=2, min_size=1), {"owners"}),  # used for "natural" alone
    "build": (models.build, dict(name="mlp", seed=0, input_shape=(4,), classes=2), set()),
}
CASES = [
    pytest.param(call, name, id=f"{call}-{name}")
    for call, (function, _, ignored) in CALLS.items()
    for name in inspect.signature(function).parameters
    if name not in ignored
]
FINE = {("memory_limit", "number"), *((name, "model") for name in ("callback", "on_round", "loss", "wire", "progress"))}
"""What may be given: a limit beyond all memory, and a model wherever a function may stand."""


@pytest.mark.parametrize(("call", "name"), CASES)
def test_no_argument_is_printed(call: str, name: str) -> None:
    function, arguments, _ = CALLS[call]
    for kind, thing in THINGS.items():
        if (name, kind) not in FINE and (call, name, kind) != ("partition", "labels", "tensor"):
            with pytest.raises(InputError) as refused:
                function(**arguments | {name: thing})
            sentence = str(refused.value)
            assert "\n" not in sentence, kind
            assert not any(word in sentence for word in ("tensor(", "array(", "object at 0x")), kind
            assert len(sentence) < 800, kind


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(64, 4), "<Tensor of shape (64, 4), float32>"),
        (np.zeros((2, 3), np.int32), "<ndarray of shape (2, 3), int32>"),
        (torch.tensor(5), "tensor(5)"),
        ((torch.zeros(2, 1), "a"), "(<Tensor of shape (2, 1), float32>, 'a')"),
        ({"x": torch.zeros(3)}, "{'x': <Tensor of shape (3,), float32>}"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, 6, 7, ... (9 in all)]"),
        (list(range(8)), "[0, 1, 2, 3, 4, 5, 6, 7]"),
        ((1,), "(1,)"),
        ([], "[]"),
        (TensorDataset(X, Y), "<TensorDataset>"),
        (nn.Sequential(nn.Linear(1, 1), nn.ReLU()), "<Sequential>"),
        (2.5, "2.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_in_a_sentence(value: Any, text: str) -> None:
    assert shown(value) == text


# Names of arguments


@pytest.mark.parametrize("call", [smofi.train, smofi.prepare])
def test_wrong_names_of_arguments_are_named(call: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        call(MODEL, [(X, Y)], epochs=1)
    with pytest.raises(TypeError, match=r"missing .* argument: 'clients'"):
        call(MODEL)
    with pytest.raises(TypeError, match="positional arguments"):
        call(MODEL, [(X, Y)], None, 10)


# Models


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]


def refusal(**changes: Any) -> str:
    with pytest.raises(InputError) as refused:
        smofi.train(**dict(model=MODEL, clients=[(X, Y)], batch_size=4) | changes)
    return str(refused.value)


def test_a_plain_module_is_told_how_to_become_blocks() -> None:
    sentence = refusal(model=Plain())
    assert sentence.endswith("to make one of it, smofi.blocks(model, ['first', 'second'], sample=inputs)")
    made = smofi.blocks(Plain(), ["first", "second"], sample=X)
    assert len(smofi.train(made, [(X, Y)], batch_size=4, rounds=1, cut=0).history) == 1
    assert "smofi.blocks(" in refusal(model=nn.Linear(4, 2))
    assert "smofi.blocks" not in refusal(model=None)


def test_a_sequence_within_a_sequence() -> None:
    assert refusal(model=nn.Sequential(MODEL)).endswith("and it has 1, which is one itself: give that")


# Data


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (Y + 1, "range from 1 to 2"),
        (Y - 1, "range from -1 to 0"),
        (Y.float(), "are of type float32"),
        (Y.double(), "are of type float64"),
        (Y.bool(), "are of type bool"),
    ],
    ids=["too large", "negative", "float32", "float64", "bool"],
)
@pytest.mark.parametrize("place", ["clients[0]", "clients[1]", "test", "validation"])
@pytest.mark.parametrize("as_dataset", [False, True], ids=["tensors", "dataset"])
def test_targets_that_are_no_classes(targets: torch.Tensor, problem: str, place: str, as_dataset: bool) -> None:
    given: dict[str, Any] = {"clients[0]": (X, Y), "clients[1]": (X, Y), "test": (X, Y), "validation": (X, Y)}
    if as_dataset and place == "clients[1]":
        return  # read only when it takes part: its samples may be slow to get
    given[place] = TensorDataset(X, targets) if as_dataset else (X, targets)
    sentence = refusal(
        clients=[given["clients[0]"], given["clients[1]"]], test=given["test"], validation=given["validation"]
    )
    assert sentence.startswith(f"{place} is not accepted: its targets {problem}, but the model has 2 outputs, for")
    assert "targets from 0 to 1" in sentence


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_classes_may_be_whole_numbers_of_any_type(dtype: torch.dtype) -> None:
    wanted = smofi.train(MODEL, [(X, Y)], (X, Y), batch_size=4, rounds=1).history[0]
    got = smofi.train(MODEL, [(X, Y.to(dtype))], (X, Y.to(dtype)), batch_size=4, rounds=1).history[0]
    assert (got.train_loss, got.loss, got.accuracy) == (wanted.train_loss, wanted.loss, wanted.accuracy)


def test_targets_in_columns_are_told_how_to_become_classes() -> None:
    told = "clients[0] is not accepted: expected one class per sample, but each has targets of shape "
    assert refusal(clients=[(X, Y[:, None])]) == f"{told}(1,); try targets.squeeze(1)"
    assert refusal(clients=[(X, nn.functional.one_hot(Y))]) == f"{told}(2,); try targets.argmax(1)"


def test_probabilities_are_targets_too() -> None:
    shares = nn.functional.one_hot(Y).float()
    assert len(smofi.train(MODEL, [(X, shares)], batch_size=4, rounds=1).history) == 1


def test_what_is_not_a_list_of_clients_is_told_how_to_become_one() -> None:
    assert refusal(clients=(X, Y)).endswith(
        "expected a list with one entry per client; for a single client, [(inputs, targets)]"
    )
    for several in (data.load("digits"), data.load("digits").train, ((X, Y) for _ in range(2))):
        assert refusal(clients=several).endswith("such as [source.train[part] for part in parts]")
    assert refusal(clients=[(X.tolist(), Y.tolist())]).startswith(
        "clients[0] is not accepted: expected a pair of tensors,"
    )
    assert refusal(loss=nn.CrossEntropyLoss).endswith("a function of (outputs, targets), such as nn.CrossEntropyLoss()")
    assert refusal(clients={"a": (X, Y)}).endswith("such as list(clients.values())")
    digits = data.load("digits")
    assert refusal(clients=[digits]) == (
        "clients[0] is not accepted: expected samples, such as source.train or source.test, not a Source"
    )
    with pytest.raises(
        InputError, match=r"^labels=TensorSamples\(.* expected the labels alone, .* source.train.labels"
    ):
        data.partition(digits.train, 10)
    with pytest.raises(InputError, match=r"^labels=Source\(.* expected the labels alone, .* source.train.labels"):
        data.partition(digits, 10)


def test_a_source_says_how_to_get_its_tensors() -> None:
    source = data.load("digits")
    assert repr(source) == (
        "Source('digits': 1,437 training and 360 test samples, each image of shape (1, 8, 8), 10 classes; "
        "inputs, targets = source.train.tensors())"
    )
    inputs, targets = source.train.tensors()
    assert (inputs.shape, targets.shape) == ((1437, 1, 8, 8), (1437,))
    assert torch.equal(targets, source.train.labels)
    assert repr(source.test) == "TensorSamples(360 of shape (1, 8, 8); .tensors() gives inputs and targets)"
    assert "source.train.tensors()" in (data.Source.__doc__ or "")


# Paths


@pytest.mark.parametrize("path", ["a\0b", Path("a\0b")], ids=["text", "path"])
def test_a_path_with_a_nul_is_refused(path: Any) -> None:
    for call in (
        lambda: experiment.start(Config(), path),
        lambda: experiment.resume(path, {}),
        lambda: export.export_run(path, "exported"),
        lambda: export.export_run("runs/mine", path),
        lambda: data.load("cifar10", folder=path),
    ):
        with pytest.raises(
            InputError, match=r"^\w+=.*a\\x00b'\)? is not accepted: expected a path without NUL charact"
        ):
            call()


def test_a_run_folder_may_be_text(tmp_path: Path) -> None:
    config = Config(max_train=100, max_test=10, clients=4, model="cnn", width=2, method="fedavg", rounds=1)
    (run,) = experiment.start(config, str(tmp_path / "mine"))
    run.close()
    assert run.folder.path == tmp_path / "mine"
