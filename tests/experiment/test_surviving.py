"""Full disks, unwritable folders, signals, early stops: a clear sentence, and nothing lost."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.engine.events import Record
from smofi.engine.stopping import BestRound, Stopping
from smofi.errors import SmofiError, TrainingWarning
from smofi.experiment import resume, start
from smofi.runs import RunFolder
from support.crash import TINY, same_end, train
from support.crash import command as forked_command

FLAGS = ["--clients", "6", "--participation", "0.5", "--model", "cnn", "--width", "4", "--method", "smofi",
         "--local-epochs", "1", "--batch-size", "16", "--checkpoint-every", "1000"]  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(folder)
    return folder


def test_a_full_disk_is_told_and_tried_again(straight: Path, tmp_path: Path) -> None:
    """The first checkpoint goes to a device that is always full; the second finds room."""
    (run,) = start(TINY, tmp_path / "run")
    (tmp_path / "run/checkpoints").mkdir()
    (tmp_path / "run/checkpoints/.round-000001.safetensors.part").symlink_to("/dev/full")
    with pytest.warns(TrainingWarning, match=r"round 1 could not be saved .*No space left on device; there is no ch"):
        run.train()
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 8
    assert (tmp_path / "run/checkpoints/round-000008.safetensors").exists()
    same_end(tmp_path / "run", straight)


def test_the_model_matters_most_on_a_disk_that_stays_full(tmp_path: Path) -> None:
    """No state fits from round 4 on: the run says so, goes on, and its model is saved all the same."""
    (run,) = start(TINY, tmp_path / "run")
    folder = tmp_path / "run/checkpoints"
    folder.mkdir()
    for number in range(4, 9):
        (folder / f".round-{number:06d}.safetensors.part").mkdir()  # cannot be opened for writing
    with pytest.warns(TrainingWarning, match=r"could not be saved.* is that of round 3") as warned:
        result = run.train()
    assert "The final model is saved; more rounds would have to go on from there." in str(warned[-1].message)
    assert len(result.history) == 8
    assert json.loads((tmp_path / "run/result.json").read_text())["rounds"] == 8
    assert RunFolder(tmp_path / "run").checkpoint(3).round == 3
    for path in folder.glob(".round-*"):
        path.rmdir()
    (again,) = resume(tmp_path / "run", {"rounds": 9})
    assert len(again.session.run.history) == 3
    again.train()
    train(tmp_path / "straight", TINY.model_copy(update={"rounds": 9}))
    same_end(tmp_path / "run", tmp_path / "straight")


def test_a_model_that_cannot_be_written_ends_in_a_sentence_with_the_last_state_kept(
    straight: Path, tmp_path: Path
) -> None:
    (run,) = start(TINY, tmp_path / "run")
    (tmp_path / "run/.model.safetensors.part").mkdir()
    with pytest.raises(SmofiError, match=r"the result could not be written .*is that of round 8.*smofi run --resume"):
        run.train()
    (tmp_path / "run/.model.safetensors.part").rmdir()
    train(tmp_path / "run")
    same_end(tmp_path / "run", straight)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_saves_at_the_end_of_the_round_and_the_run_goes_on_from_there(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    errors = tmp_path / "errors"
    process = forked_command("run", *FLAGS, "--rounds", 100000, "--output", folder, errors=errors)
    deadline, metrics = time.monotonic() + 60, folder / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline, "the run did not start within a minute"
        time.sleep(0.05)
    assert process.pid
    os.kill(process.pid, number)
    process.join(timeout=60)
    assert process.exitcode == code
    assert errors.read_text() == f"Interrupted; continue with: smofi run --resume {folder}\n"
    done = len((folder / "metrics.jsonl").read_text().splitlines())
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"round-{done:06d}.safetensors"]
    assert not (folder / "result.json").exists()
    rounds, straight = ["--rounds", str(done + 3), "--display", "quiet"], tmp_path / "straight"
    assert main(["run", "--resume", str(folder), *rounds]) == 0
    assert main(["run", *FLAGS, "--output", str(straight), *rounds]) == 0
    assert (folder / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()


def record(round: int, accuracy: float | None, validation: float | None) -> Record:
    return Record(round, accuracy, 0.0, 0.0, 0.0, [], [], 0.1, "1", validation=validation)


def test_a_run_stops_at_its_target_and_stays_stopped(tmp_path: Path) -> None:
    (run,) = start(TINY.model_copy(update={"target_accuracy": 0.2, "rounds": 50}), tmp_path / "run")
    result = run.train()
    reached = [one.validation is not None and one.validation >= 0.2 for one in result.history]
    assert reached == [False] * (len(reached) - 1) + [True]
    assert str(result.stopped).startswith("reached the target accuracy 0.2")
    assert json.loads((tmp_path / "run/result.json").read_text())["stopped"] == result.stopped
    (again,) = resume(tmp_path / "run", {})
    assert len(again.train().history) == len(result.history)


def test_patience_counts_from_the_first_best_round_and_the_target_is_that_of_the_validation_split() -> None:
    history = [record(n, 0.5, value) for n, value in enumerate([0.2, 0.6, 0.6, 0.5], start=1)]
    assert BestRound().of(history) == 2
    assert Stopping(patience=3).reason(history) is None
    assert Stopping(patience=2).reason(history) == "no better validation accuracy for 2 rounds, the best was in round 2"
    reason = "reached the target accuracy 0.7 with 0.7500 in round 1"
    assert Stopping(target_accuracy=0.7).reason([record(1, 0.75, None)]) == reason
    assert Stopping(target_accuracy=0.7).reason([record(1, 0.9, 0.6)]) is None
    assert Stopping(target_accuracy=0.7).reason([record(1, 0.1, 0.75)]) == reason
    assert Stopping(target_accuracy=0.7).reason([]) is None
