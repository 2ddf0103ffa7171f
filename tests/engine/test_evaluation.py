"""Evaluation of a run: measures against scikit-learn and by hand, in which rounds, and what is judged by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import smofi
from reference import convnet, federation, perceptron
from smofi.cli import main
from smofi.experiment import resume, start
from smofi.export import export_run
from smofi.runs import RunFolder
from support.crash import TINY, metrics, same_end

SHORT: dict[str, Any] = dict(rounds=2, participation=1.0, local_epochs=1, batch_size=4)


class Echo(nn.Module):
    """Gives back its input, so that the data decides what is predicted; its parameter gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * self.zero


def predicting(predicted: list[int], targets: list[int]) -> tuple[Tensor, Tensor]:
    return one_hot(torch.tensor(predicted, dtype=torch.int64), 3).double(), torch.tensor(targets)


def judged(test: Any, clients: list[Any], **more: Any) -> smofi.Result:
    """What a model is judged by that echoes its data."""
    return smofi.train(nn.Sequential(nn.Identity(), Echo()), clients, test, **SHORT | {"rounds": 1, "cut": 0} | more)


# -------------------------------------------------------------------------------------------------------- the measures


def test_every_measure_by_hand() -> None:
    test = predicting([0, 1, 2, 2], [0, 1, 1, 2])
    clients = [predicting([0] * 4, [0, 0, 1, 1]), predicting([1, 2, 2, 2], [1, 2, 2, 0])]

    def largest(outputs: Tensor, targets: Tensor) -> float:
        return float(outputs.max() + targets.max())

    (record,) = judged(test, clients, metrics=("top1", "macro_f1", "per_client", "worst_client", largest)).history
    # one-hot outputs: log(e + 2) - 1 for the three right ones, log(e + 2) for the wrong one
    assert record.loss == pytest.approx(torch.tensor(torch.e + 2).log().item() - 3 / 4)
    assert set(record.metrics) == {"top1", "macro_f1", "per_client", "worst_client", "largest"}
    assert record.accuracy == record.metrics["top1"] == 0.75
    assert record.metrics["macro_f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert (record.metrics["per_client"], record.metrics["worst_client"]) == ([0.5, 0.75], 0.5)
    assert record.metrics["largest"] == 3.0


def test_measures_of_a_run_are_those_of_its_final_model() -> None:
    clients, (x, y) = federation([1, 4, 4], sizes=(12, 9, 2)), federation([1, 4, 4], sizes=(1100,), seed=9)[0]
    measures = ("top1", "macro_f1", "per_client", "worst_client")
    result = smofi.train(convnet(), clients, (x, y), method="smofi", metrics=measures, **SHORT)
    assert all(not module.training for module in result.model.modules())
    with torch.no_grad():
        outputs = result.model(x)
        own = [accuracy_score(y_j, result.model(x_j).argmax(1)) for x_j, y_j in clients]
    predicted, last = outputs.argmax(1), result.history[-1]
    assert last.accuracy == last.metrics["top1"] == pytest.approx(accuracy_score(y, predicted))
    assert last.metrics["macro_f1"] == pytest.approx(f1_score(y, predicted, average="macro", zero_division=0))
    assert last.metrics["per_client"] == pytest.approx(own)
    assert last.metrics["worst_client"] == pytest.approx(min(own))
    assert last.loss == pytest.approx(cross_entropy(outputs, y).item(), abs=1e-12)


def negative(outputs: Tensor, targets: Tensor) -> Tensor:
    """A number below 0, as a tensor of one element."""
    return -cross_entropy(outputs, targets)


def confusion(outputs: Tensor, targets: Tensor) -> list[int]:
    return [int((outputs.argmax(1) != targets).sum())] * 2


@pytest.mark.parametrize(
    ("chosen", "test", "headings"),
    [
        (["top1"], True, {"top1": "accuracy"}),
        (["macro_f1", "top1"], True, {"macro_f1": "macro F1", "top1": "accuracy"}),
        (
            ["per_client", "macro_f1"],
            True,
            {"macro_f1": "macro F1", "per_client": "mean of clients (on training data)"},
        ),
        (["worst_client"], True, {"worst_client": "worst client (on training data)"}),
        ([], True, {"top1": "accuracy"}),
        (["top1", "worst_client"], False, {"worst_client": "worst client (on training data)"}),
        ([confusion, negative, "top1"], True, {"negative": "negative", "top1": "accuracy"}),
    ],
)
def test_the_first_single_number_is_judged(chosen: list[Any], test: bool, headings: dict[str, str]) -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    result = smofi.train(convnet(), clients, clients[0] if test else None, metrics=chosen, **SHORT)
    assert list(result.metrics.items()) == list(headings.items())
    last, (name, heading) = result.history[-1], next(iter(headings.items()))
    if chosen:
        assert repr(result).startswith(f"Result(2 rounds, {heading} {last.value(name):.4g} after round 2")
    assert (last.loss is not None) == test
    assert (last.accuracy is not None) == (test and "top1" in chosen)


def test_clients_with_names_and_test_samples_of_their_own() -> None:
    clients = [predicting([0] * 4, [0, 0, 1, 1])] * 3
    tests = [predicting([0, 1], [0, 0]), None, predicting([2, 2, 2, 2], [2, 2, 2, 0])]
    how: dict[str, Any] = {"client_tests": tests, "client_names": ["north", "south", "west"]}
    result = judged(None, clients, metrics=["per_client", "worst_client"], **how)
    per_client = {"north": 0.5, "south": None, "west": 0.75}
    assert result.history[0].metrics == {"per_client": per_client, "worst_client": 0.5}
    assert result.metrics == {"worst_client": "worst client", "per_client": "mean of clients"}


@pytest.mark.parametrize(
    ("measures", "target", "said"),
    [
        (["macro_f1"], 0.001, "reached the target macro F1 0.001 with "),
        ([negative], -9.0, "reached the target negative -9"),
    ],
)
def test_a_target_of_another_metric_is_reached_on_validation_data(measures: Any, target: float, said: str) -> None:
    clients = federation([1, 4, 4], sizes=(12, 9))
    how = {"validation": clients[1], "target_accuracy": target, "metrics": measures}
    result = smofi.train(convnet(), clients, clients[0], **SHORT | how)
    assert len(result.history) == 1
    assert str(result.stopped).startswith(said)
    assert f"{result.history[0].validation:.4f} in round 1" in str(result.stopped)


# ----------------------------------------------------------------------------------------------------- in which rounds


def trained(eval_every: int, rounds: int = 7, **changes: Any) -> smofi.Result:
    clients = federation([3])
    how = {"participation": 0.5, "local_epochs": 1, "batch_size": 4, "seed": 5, **changes}
    held_out = {"test": clients[3], "validation": clients[2], "metrics": ("top1", "per_client")}
    return smofi.train(perceptron(), clients, rounds=rounds, eval_every=eval_every, **held_out, **how)


@pytest.mark.parametrize(("eval_every", "evaluated"), [(3, [3, 6, 7]), (50, [7])])
def test_every_so_many_rounds_and_the_last_are_evaluated_and_nothing_else_changes(
    eval_every: int, evaluated: list[int]
) -> None:
    always, sparse = trained(1), trained(eval_every)
    nothing: dict[str, Any] = {"accuracy": None, "loss": None, "validation": None, "metrics": {}}
    for record, full in zip(sparse.history, always.history, strict=True):
        expected = replace(full, seconds=record.seconds)
        assert record == (expected if record.round in evaluated else replace(expected, **nothing))
    for mine, theirs in zip(sparse.model.parameters(), always.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(("limits", "rounds"), [({"target_accuracy": 0.001}, 3), ({"patience": 2, "rounds": 40}, 6)])
def test_ends_before_time_come_after_an_evaluated_round(limits: dict[str, Any], rounds: int) -> None:
    """With a learning rate of next to nothing, no round is better than the first that is evaluated."""
    result = trained(3, optimizer="sgd(lr=1e-12)", **limits)
    assert len(result.history) == rounds
    assert str(result.stopped).endswith(f"in round {rounds if rounds == 3 else 3}")


SPARSE = TINY.model_copy(update={"eval_every": 3})


def straight(path: Path, rounds: int) -> Path:
    (run,) = start(SPARSE.model_copy(update={"rounds": rounds}), path)
    run.train()
    return path


@pytest.mark.parametrize("rounds", [4, 8, 10])
def test_an_interrupted_run_goes_on_as_if_it_had_never_stopped(rounds: int, tmp_path: Path) -> None:
    """After round 4, which was the last one it had and so was evaluated, or is declared to be the last."""
    folder = tmp_path / "run"
    (run,) = start(SPARSE, folder)

    def interrupt(event: smofi.Event) -> None:
        if isinstance(event, smofi.RoundDone) and event.record.round == 4:
            run.session.run.interrupt()

    run.session.run.emit = interrupt
    assert run.train().interrupted
    assert metrics(folder)[-1]["accuracy"] is None
    export_run(folder, tmp_path / "out", formats=["safetensors"])
    assert "The whole model, after round 4: not measured." in (tmp_path / "out" / "README.md").read_text()
    (again,) = resume(folder, {"rounds": rounds})
    again.train()
    other = straight(tmp_path / "straight", rounds)
    same_end(folder, other)
    assert (folder / "result.json").read_bytes() == (other / "result.json").read_bytes()
    mine, theirs = (RunFolder(one).best() for one in (folder, other))
    assert (mine.round, mine.notes) == (theirs.round, theirs.notes)
    assert mine.tensors["weights"].equal(theirs.tensors["weights"])


def test_the_last_round_is_evaluated_no_longer_when_there_are_more(tmp_path: Path) -> None:
    folder = straight(tmp_path / "run", 4)
    assert metrics(folder)[-1]["accuracy"] is not None
    (again,) = resume(folder, {"rounds": 8})
    again.train()
    same_end(folder, straight(tmp_path / "straight", 8))
    (another,) = resume(folder, {"rounds": 10, "eval_every": 2})  # the past stays
    assert [record.round for record in another.train().history if record.evaluated] == [3, 6, 8, 10]


def test_the_last_good_round_of_a_run_that_diverges_is_evaluated() -> None:
    """Prediction w x, loss (w x)²: with x = 1 and lr = 5.5 a step multiplies w by -10, and a round by 100. The first
    loss of round 11 is 1e40, more than a float can hold."""
    x = torch.ones(1)
    with pytest.warns(smofi.TrainingWarning):
        result = smofi.train(
            *(nn.Sequential(nn.Identity(), nn.Linear(1, 1, bias=False)).float(), [(x[None], 0 * x[None])]),
            *((x[None] / 1000, 0 * x[None]),),
            method="fedavg", optimizer="sgd(lr=5.5)", loss=nn.functional.mse_loss, metrics=(), cut=0,
            rounds=50, participation=1.0, local_epochs=2, batch_size=1, eval_every=4,
        )  # fmt: skip
    assert result.diverged
    evaluated = [record.round for record in result.history if record.evaluated]
    assert evaluated[:-1] == [4, 8]
    assert evaluated[-1] == len(result.history) > 8


def test_the_command_evaluates_reports_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--model cnn --width 4 --clients 4 --batch-size 64 --local-epochs 1 --participation 0.5 --method fedavg"
    output = str(tmp_path / "both")
    assert (
        main(["run", *asked.split(), "--method", "smofi", "--rounds", "5", "--eval-every", "3", "--output", output])
        == 0
    )
    out = capsys.readouterr().out
    for method in ("fedavg", "smofi"):
        lines = [json.loads(line) for line in (tmp_path / "both" / method / "metrics.jsonl").read_text().splitlines()]
        known = [line["accuracy"] for line in lines if line["accuracy"] is not None]
        assert [line["round"] for line in lines if line["accuracy"] is not None] == [3, 5]
        row = next(line for line in out.splitlines() if line[1:].strip().startswith(f"{method} "))
        assert f"{100 * max(known):.1f}%" in row
        assert f"{100 * fmean(known):.1f}%" in row
    assert main(["show", output]) == 0
