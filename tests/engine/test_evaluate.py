"""Evaluation: measures against scikit-learn and by hand, on test data and on the clients' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import smofi
from reference import convnet, federation
from smofi.engine.evaluate import Evaluator, Judges
from smofi.engine.metrics import macro_f1, top1
from smofi.errors import InputError
from smofi.training import as_samples


def samples(inputs: Tensor, targets: Tensor) -> Any:
    return as_samples((inputs, targets), "samples", torch.float64, torch.device("cpu"))


class Echo(nn.Module):
    """Gives back its input, so that the data decides what is predicted; the zero is something to have a device."""

    def __init__(self) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.zero


def predicting(predicted: list[int], targets: list[int], classes: int = 3) -> Any:
    """Samples for which `Echo` predicts these classes."""
    return samples(one_hot(torch.tensor(predicted, dtype=torch.int64), classes).double(), torch.tensor(targets))


def evaluator(metrics: Any, test: Any = None, clients: Any = (), **more: Any) -> Evaluator:
    return Evaluator(Echo(), cross_entropy, metrics, Judges(test, clients=clients, **more))


# Measures


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_top1_and_macro_f1_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    predicted, targets = map(list, zip(*pairs, strict=True))
    outputs = one_hot(torch.tensor(predicted), 5).double()
    assert top1(outputs, torch.tensor(targets)) == pytest.approx(accuracy_score(targets, predicted), abs=1e-12)
    expected = f1_score(targets, predicted, average="macro", zero_division=0)
    assert macro_f1(outputs, torch.tensor(targets)) == pytest.approx(expected, abs=1e-12)


def test_macro_f1_by_hand() -> None:
    """Class 0: 1 right of 2 predicted and 1 there, F1 2/3; class 1: 1 of 1 and 2, 2/3; class 2 does not occur."""
    outputs = one_hot(torch.tensor([0, 0, 1]), 3).double()
    assert macro_f1(outputs, torch.tensor([0, 1, 1])) == pytest.approx(2 / 3)


def test_every_measure_has_its_place() -> None:
    test = predicting([0, 1, 2, 2], [0, 1, 1, 2])
    clients = [predicting([0, 0], [0, 1]), predicting([], []), predicting([1, 2, 2, 2], [1, 2, 2, 0])]
    judge = evaluator(("top1", "macro_f1", "per_client", "worst_client"), test, clients)
    loss, metrics = judge.evaluate()
    # one-hot outputs: log(e + 2) - 1 for the three right ones, log(e + 2) for the wrong one
    assert loss == pytest.approx(np.log(np.e + 2) - 3 / 4)
    assert list(metrics) == ["top1", "macro_f1", "per_client", "worst_client"]
    assert metrics["top1"] == 0.75
    assert metrics["macro_f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert metrics["per_client"] == [0.5, None, 0.75]
    assert metrics["worst_client"] == 0.5


def test_a_function_is_a_measure_by_its_own_name() -> None:
    def largest(outputs: Tensor, targets: Tensor) -> float:
        return float(outputs.max() + targets.max())

    loss, metrics = evaluator([largest], predicting([0, 2], [0, 2])).evaluate()
    assert metrics == {"largest": 3.0}
    assert loss is not None


def test_without_test_data_there_is_no_loss_and_only_the_clients_count() -> None:
    clients = [predicting([0, 1], [0, 0])]
    assert evaluator(("top1", "worst_client"), None, clients).evaluate() == (None, {"worst_client": 0.5})
    assert evaluator((), None, clients).evaluate() == (None, {})


@pytest.mark.parametrize(
    ("metric", "hint"), [("topp1", " (did you mean 'top1'?)"), ("worst", ""), (5, ""), (None, ""), ("", "")]
)
def test_an_unknown_measure_is_refused(metric: Any, hint: str) -> None:
    with pytest.raises(InputError) as refusal:
        evaluator(["top1", metric])
    assert str(refusal.value).startswith(
        f"metrics={metric!r} is not accepted: expected one of top1, macro_f1, per_client, worst_client"
    )
    assert str(refusal.value).endswith(hint)


# How it looks at the model


@pytest.mark.parametrize("batch_size", [1, 3, 7, 500])
def test_the_batch_size_of_the_evaluation_does_not_matter(batch_size: int) -> None:
    ((x, y),) = federation([1, 4, 4], sizes=(20,))
    model = convnet()
    judge = Evaluator(model, cross_entropy, ("top1",), Judges(samples(x, y)), batch_size=batch_size)
    outputs, targets = judge.predict(samples(x, y))
    with torch.no_grad():
        expected = model.eval()(x)
    assert (outputs - expected).abs().max() < 1e-12
    assert torch.equal(targets, y)
    loss, metrics = judge.evaluate()
    assert loss == pytest.approx(cross_entropy(expected, y).item(), abs=1e-12)
    assert metrics["top1"] == (expected.argmax(1) == y).double().mean().item()


def test_it_evaluates_in_evaluation_mode_and_changes_nothing() -> None:
    ((x, y),) = federation([1, 4, 4], sizes=(20,))
    model = convnet().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    judge = Evaluator(model, cross_entropy, ("top1",), Judges(samples(x, y)))
    assert judge.evaluate() == judge.evaluate()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# In a run


def test_measures_of_a_run_are_those_of_its_final_model() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9, 2))
    x, y = federation([1, 4, 4], sizes=(25,), seed=9)[0]

    def outputs_mean(outputs: Tensor, targets: Tensor) -> float:
        return outputs.mean().item()

    result = smofi.train(
        *(convnet(), clients, (x, y)),
        method="smofi",
        **dict(rounds=3, participation=1.0, local_epochs=1, batch_size=4, seed=2),
        metrics=("top1", "macro_f1", "per_client", "worst_client", outputs_mean),
    )
    model, last = result.model.eval(), result.history[-1]
    with torch.no_grad():
        outputs = model(x)
        own = [accuracy_score(y_j, model(x_j).argmax(1)) for x_j, y_j in clients]
    predicted = outputs.argmax(1)
    assert last.accuracy == last.metrics["top1"] == pytest.approx(accuracy_score(y, predicted))
    assert last.metrics["macro_f1"] == pytest.approx(f1_score(y, predicted, average="macro", zero_division=0))
    assert last.metrics["per_client"] == pytest.approx(own)
    assert last.metrics["worst_client"] == pytest.approx(min(own))
    assert last.metrics["outputs_mean"] == pytest.approx(outputs.mean().item(), abs=1e-12)
    assert last.loss == pytest.approx(cross_entropy(outputs, y).item(), abs=1e-12)


def outputs_shape(outputs: Tensor, targets: Tensor) -> Any:
    return list(outputs.shape)


def test_without_top1_there_is_no_accuracy() -> None:
    clients = federation([1, 4, 4], sizes=(12,))
    settings: dict[str, Any] = dict(rounds=1, participation=1.0, local_epochs=1, batch_size=4)
    result = smofi.train(convnet(), clients, clients[0], metrics=("macro_f1",), **settings)
    assert result.history[0].accuracy is None
    assert list(result.history[0].metrics) == ["macro_f1"]
    assert repr(result) == f"Result(1 round, macro F1 {result.history[0].metrics['macro_f1']:.4g} after round 1)"
    functions: list[smofi.Metric] = [outputs_shape, macro_f1]
    result = smofi.train(convnet(), clients, clients[0], metrics=functions, **settings)
    assert "1 round, macro F1 " in repr(result), "a list is no number to judge by"
    result = smofi.train(convnet(), clients, client_tests=clients, metrics=("worst_client",), **settings)
    assert f"1 round, worst client {result.history[0].value('worst_client'):.4g} " in repr(result), "on test data"
    without = smofi.train(convnet(), clients, **settings)
    assert (without.history[0].accuracy, without.history[0].loss, without.history[0].metrics) == (None, None, {})


# Which of them is judged


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (["top1"], {"top1": "accuracy"}),
        (["macro_f1", "top1"], {"macro_f1": "macro F1", "top1": "accuracy"}),
        (["per_client", "macro_f1"], {"macro_f1": "macro F1", "per_client": "mean of clients (on training data)"}),
        (["worst_client"], {"worst_client": "worst client (on training data)"}),
        (["per_client"], {"per_client": "mean of clients (on training data)"}),
        ([], {"top1": "accuracy"}),
    ],
)
def test_the_first_single_number_is_judged(metrics: list[str], expected: dict[str, str]) -> None:
    judge = evaluator(metrics, predicting([0], [0]), [predicting([0], [0])])
    assert list(judge.headings.items()) == list(expected.items())


def test_without_test_data_a_metric_of_the_clients_is_judged() -> None:
    assert list(evaluator(["top1", "worst_client"], None, [predicting([0], [0])]).headings) == ["worst_client"]


def test_what_is_reached_by_chance_is_what_the_most_frequent_class_gives() -> None:
    """Two of four are of class 1. Told for all of them, it has an F1 of 2/3; classes 0 and 2, which occur, have 0."""
    test = predicting([0, 0, 0, 0], [0, 1, 1, 2])
    assert evaluator(["top1"], test).chance == 0.5
    assert evaluator(["macro_f1"], test).chance == pytest.approx((2 / 3) / 3)
    assert evaluator(["worst_client"], test, [test]).chance is None


def test_clients_with_test_samples_of_their_own_are_judged_by_them_and_by_name() -> None:
    clients = [predicting([0, 0], [0, 0])] * 3
    tests = [predicting([0, 1], [0, 0]), None, predicting([2, 2, 2, 2], [2, 2, 2, 0])]
    judge = evaluator(
        ("per_client", "worst_client"), None, clients, client_tests=tests, client_names=("north", "south", "west")
    )
    _, metrics = judge.evaluate()
    assert metrics == {"per_client": {"north": 0.5, "south": None, "west": 0.75}, "worst_client": 0.5}
    assert judge.headings == {"worst_client": "worst client", "per_client": "mean of clients"}


def settings_of_a_short_run(**more: Any) -> dict[str, Any]:
    return dict(rounds=2, participation=1.0, local_epochs=1, batch_size=4) | more


def negative(outputs: Tensor, targets: Tensor) -> Tensor:
    """A number below 0, as a tensor of one element."""
    return -cross_entropy(outputs, targets)


def confusion(outputs: Tensor, targets: Tensor) -> list[int]:
    return [int((outputs.argmax(1) != targets).sum())] * 2


def test_a_function_can_be_judged_and_what_is_no_number_cannot() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    started: list[smofi.Event] = []
    result = smofi.train(
        *(convnet(), clients, clients[0]),
        **settings_of_a_short_run(validation=clients[1], target_accuracy=-9.0, callback=started.append),
        metrics=(confusion, negative, "top1"),
    )
    last = result.history[-1]
    assert list(started[0].metrics) == ["negative", "top1"]  # type: ignore[union-attr]
    assert last.value("negative") == last.metrics["negative"] == -last.loss
    assert last.metrics["confusion"] == confusion(result.model.eval()(clients[0][0]), clients[0][1])
    with torch.no_grad():
        on_validation = negative(result.model.eval()(clients[1][0]), clients[1][1])
    assert last.validation == pytest.approx(float(on_validation), abs=1e-12)
    assert result.stopped == f"reached the target negative -9 with {last.validation:.4f} in round 1"


def test_a_target_can_be_one_of_macro_f1() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    result = smofi.train(
        *(convnet(), clients, clients[0]), metrics=["macro_f1"], **settings_of_a_short_run(target_accuracy=0.001)
    )
    assert result.stopped == (
        f"reached the target macro F1 0.001 with {result.history[0].metrics['macro_f1']:.4f} in round 1"
    )


def test_a_target_above_1_needs_a_metric_that_can_be() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    with pytest.raises(InputError, match=r"^target_accuracy=90 is not accepted: expected a number > 0 and <= 1$"):
        smofi.train(convnet(), clients, clients[0], **settings_of_a_short_run(target_accuracy=90))


def test_from_python_too_clients_have_names_and_test_samples() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    own = federation([1, 4, 4], sizes=(8,), seed=5)[0]
    result = smofi.train(
        *(convnet(), clients),
        **settings_of_a_short_run(metrics=["per_client"], client_tests=[None, own], client_names=["north", "south"]),
    )
    with torch.no_grad():
        accuracy = accuracy_score(own[1], result.model.eval()(own[0]).argmax(1))
    assert result.history[-1].metrics == {"per_client": {"north": None, "south": pytest.approx(accuracy)}}
    assert result.history[-1].value("per_client") == pytest.approx(accuracy)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"client_names": ["north"]}, "client_names is not accepted: expected a list with one entry for each"),
        ({"client_tests": [None] * 3}, "client_tests is not accepted: expected a list with one entry for each"),
        ({"client_names": ["north", "north"]}, "expected a name of its own for each client"),
        ({"client_tests": [None, 7]}, r"client_tests\[1\] is not accepted: expected a pair of tensors"),
    ],
)
def test_names_and_tests_that_do_not_fit_the_clients_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        smofi.train(convnet(), federation([1, 4, 4], sizes=(12, 9)), **settings_of_a_short_run(**wrong))


def test_a_client_whose_numbers_explode_is_named() -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    with pytest.warns(smofi.TrainingWarning, match=r"client 0 \(north\); the model is the one after round 0"):
        smofi.train(
            *(convnet(), clients, clients[0]),
            **settings_of_a_short_run(client_names=["north", "south"], optimizer="sgd(lr=1e200)", local_epochs=5),
        )
