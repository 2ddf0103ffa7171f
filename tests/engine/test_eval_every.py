"""Rounds without an evaluation: what their records say, that nothing else changes, and how runs end and go on."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import smofi
from reference import Weight, federation, perceptron
from smofi.cli import main
from smofi.config import Config
from smofi.engine.events import Event, Record, RoundDone
from smofi.engine.stopping import Stopping
from smofi.errors import InputError, TrainingWarning
from smofi.experiment import resume, start
from smofi.experiment.opening import RunKeeper
from smofi.experiment.resuming import restore
from smofi.export import export_run
from smofi.methods import parse_method
from smofi.planning import plan_run
from smofi.runs import RunFolder
from smofi.track.trackers import scalars
from support.crash import TINY

SPARSE = TINY.model_copy(update={"eval_every": 3})


def trained(eval_every: int, rounds: int = 7, **changes: Any) -> smofi.Result:
    clients = federation([3])
    settings = {"participation": 0.5, "local_epochs": 1, "batch_size": 4, "seed": 5, **changes}
    held_out = {"test": clients[3], "validation": clients[2], "metrics": ("top1", "macro_f1", "per_client")}
    return smofi.train(perceptron(), clients, rounds=rounds, eval_every=eval_every, **held_out, **settings)


def untimed(history: list[Record]) -> list[Record]:
    return [replace(record, seconds=0.0) for record in history]


def measures(record: Record) -> tuple[Any, ...]:
    return record.accuracy, record.loss, record.validation, record.metrics


# ------------------------------------------------------------------------------------------------------------ records


@pytest.mark.parametrize(("eval_every", "evaluated"), [(3, [3, 6, 7]), (7, [7]), (50, [7]), (1, [1, 2, 3, 4, 5, 6, 7])])
def test_every_so_many_rounds_and_the_last_are_evaluated_and_nothing_else_changes(
    eval_every: int, evaluated: list[int]
) -> None:
    always, sparse = trained(1), trained(eval_every)
    assert [record.round for record in sparse.history if record.evaluated] == evaluated
    for record, full in zip(untimed(sparse.history), untimed(always.history), strict=True):
        if record.round in evaluated:
            assert record == full
        else:
            assert measures(record) == (None, None, None, {})
            assert record == replace(full, accuracy=None, loss=None, validation=None, metrics={})
    for mine, theirs in zip(sparse.model.parameters(), always.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_tracker_gets_the_numbers_there_are() -> None:
    first, second = trained(2, rounds=2).history
    assert set(scalars(first)) == {"train_loss", "learning_rate", "seconds"}
    of_clients = {f"metrics/per_client/{client}" for client in range(len(second.metrics["per_client"]))}
    measured = {"accuracy", "loss", "validation", "metrics/macro_f1"}
    assert set(scalars(second)) == {*scalars(first), *measured, *of_clients}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2"])
def test_what_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"eval_every=.* is not accepted: expected a whole number >= 1"):
        trained(wrong)


# ----------------------------------------------------------------------------------------------------- early stopping


def test_the_target_is_looked_at_when_there_is_an_evaluation() -> None:
    result = trained(3, target_accuracy=0.001)
    assert len(result.history) == 3
    assert result.stopped is not None
    assert result.stopped.endswith("in round 3")


def test_patience_counts_all_rounds_and_ends_after_an_evaluated_one() -> None:
    known = [None, None, 0.6, None, None, 0.5, None, None, 0.7, None, None, 0.7, None, None, 0.6]
    history = [
        Record(number, None, None, 0.0, 0.0, [], [], 0.1, "1", validation=value)
        for number, value in enumerate(known, start=1)
    ]

    def ends(patience: int) -> tuple[int, str] | None:
        reasons = ((done, Stopping(patience=patience).reason(history[:done])) for done in range(len(history) + 1))
        return next(((done, reason) for done, reason in reasons if reason), None)

    sentence = "no better validation accuracy for {} rounds, the best was in round {}"
    assert ends(2) == ends(3) == (6, sentence.format(3, 3))
    assert ends(4) == ends(6) == (15, sentence.format(6, 9))
    assert ends(7) is None


# --------------------------------------------------------------------------------------------------- stopping, going on


def same_end(folder: Path, other: Path) -> None:
    assert (folder / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert (folder / "result.json").read_bytes() == (other / "result.json").read_bytes()
    assert metrics(folder) == metrics(other)
    mine, theirs = (RunFolder(one).best() for one in (folder, other))
    assert (mine.round, mine.notes) == (theirs.round, theirs.notes)
    assert mine.tensors["weights"].equal(theirs.tensors["weights"])


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def straight(path: Path, rounds: int) -> Path:
    """A run that never stops."""
    (run,) = start(SPARSE.model_copy(update={"rounds": rounds}), path)
    run.train()
    return path


def interrupted(path: Path, after: int) -> Path:
    """A run of eight rounds that somebody interrupts."""
    (run,) = start(SPARSE, path)

    def interrupt(event: Event) -> None:
        if isinstance(event, RoundDone) and event.record.round == after:
            run.session.run.interrupt()

    run.session.run.emit = interrupt
    assert run.train().interrupted
    return path


@pytest.mark.parametrize("after", [3, 4])
@pytest.mark.parametrize("rounds", [8, 10])
def test_an_interrupted_run_goes_on_as_if_it_had_never_stopped(after: int, rounds: int, tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", after)
    assert (metrics(folder)[-1]["accuracy"] is not None) == (after == 3)
    (again,) = resume(folder, {"rounds": rounds})
    again.train()
    same_end(folder, straight(tmp_path / "straight", rounds))


def test_the_last_round_is_evaluated_no_longer_when_there_are_more(tmp_path: Path) -> None:
    folder = straight(tmp_path / "run", 4)
    assert metrics(folder)[-1]["accuracy"] is not None
    (again,) = resume(folder, {"rounds": 8})
    again.train()
    same_end(folder, straight(tmp_path / "straight", 8))
    assert [line["round"] for line in metrics(folder) if line["accuracy"] is not None] == [3, 6, 8]


def test_an_interrupted_run_that_is_declared_finished_is_evaluated(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 4)
    (again,) = resume(folder, {"rounds": 4})
    again.train()
    same_end(folder, straight(tmp_path / "straight", 4))


def test_resumed_with_another_interval_the_past_stays(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 4)
    (again,) = resume(folder, {"eval_every": 2})
    history = again.train().history
    assert [record.round for record in history if record.evaluated] == [3, 6, 8]


def diverging(keeper: RunKeeper) -> smofi.Session:
    """Prediction w x, loss (w x)²: with x = 1 and lr = 5.5 a step multiplies w by -10, until w² is too much."""
    x = torch.ones(1)
    session = smofi.prepare(
        *(nn.Sequential(nn.Identity(), Weight()), [(x, 0 * x)], (x / 1000, 0 * x)),
        method="fedavg", optimizer="sgd(lr=5.5)", loss=mse_loss, metrics=(), cut=0,
        rounds=50, participation=1.0, local_epochs=2, batch_size=1, eval_every=4,
    )  # fmt: skip
    session.run.keeper = keeper
    return session


def test_the_last_good_round_of_a_run_that_diverges_is_evaluated(tmp_path: Path) -> None:
    """Two steps a round: w is 100^n after round n. The first loss of round 11 is 1e40, more than a float can hold."""
    with closing(RunKeeper(tmp_path, checkpoint_every=1)) as keeper:
        with pytest.warns(TrainingWarning):
            result = diverging(keeper).train()
        losses = [record.loss for record in result.history]
        evaluated = {record.round: record.loss for record in result.history if record.evaluated}
        assert result.diverged
        assert evaluated == pytest.approx({n: (100**n / 1000) ** 2 for n in (4, 8, 10)}, rel=1e-4)
        assert [line["loss"] for line in metrics(tmp_path)] == losses

        again = diverging(keeper)
        restore(keeper, again)
        assert not again.run.history[-1].evaluated
        with pytest.warns(TrainingWarning):
            assert untimed(again.train().history) == untimed(result.history)
        assert [line["loss"] for line in metrics(tmp_path)] == losses


def test_the_card_of_a_model_that_was_not_evaluated_says_so(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 4)
    export_run(folder, tmp_path / "out", formats=["safetensors"])
    assert "The whole model, after round 4: not measured." in (tmp_path / "out" / "README.md").read_text()


# --------------------------------------------------------------------------------------------------------- the command


def test_the_command_evaluates_reports_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"model": "cnn", "width": 4, "clients": 4, "batch_size": 64, "local_epochs": 1, "participation": 0.5}
    flags = [text for name, value in small.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    asked = [*flags, "--method", "fedavg", "--method", "smofi", "--rounds", "5", "--eval-every", "3"]
    assert main(["run", *asked, "--output", str(tmp_path / "both")]) == 0
    out = capsys.readouterr().out
    for method in ("fedavg", "smofi"):
        lines = metrics(tmp_path / "both" / method)
        known = [line["accuracy"] for line in lines if line["accuracy"] is not None]
        assert [line["round"] for line in lines if line["accuracy"] is not None] == [3, 5]
        row = next(line for line in out.splitlines() if line[1:].strip().startswith(f"{method} "))
        assert f"{100 * max(known):.1f}%" in row
        assert f"{100 * fmean(known):.1f}%" in row
    assert (tmp_path / "both" / "curves.png").stat().st_size > 1000
    assert main(["show", str(tmp_path / "both")]) == 0
    assert "rounds to" in capsys.readouterr().out


def test_the_plan_counts_the_evaluations_there_will_be() -> None:
    config = Config(clients=4, participation=1.0, partition="iid", rounds=4, local_epochs=1, eval_every=3)
    found = plan_run(config, "fedavg", deadline=0.1)
    planner = smofi.prepare(**config.arguments(), method="fedavg").run.planner
    ticks = fmean(sum(1 for _ in planner.plan(round).ticks(parse_method("fedavg"))) for round in range(4))
    always = found.measured.per_round(found.steps_per_round, ticks)
    assert always - found.seconds_per_round == pytest.approx(2 / 4 * found.measured.evaluation, rel=1e-6)
