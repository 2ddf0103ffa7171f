"""A run that was killed, wherever it was, ends in the same bits as one that never stopped."""

from __future__ import annotations

import errno
import json
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from smofi.errors import InputError, TrainingWarning
from smofi.experiment import resume, start
from smofi.runs import FolderLock, RunFolder, RunWriter, StoredCheckpoint, folders_in
from smofi.runs.folder import Checksum
from support.crash import TINY, child, metrics, same_end, train
from support.run_folder import rewritten

BOTH = TINY.model_copy(update={"method": ("fedavg", "smofi"), "rounds": 1})


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight rounds, in a process of its own."""
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    process = child(folder)
    process.join()
    assert process.exitcode == 0
    return folder


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with a ninth round, which was never resumed."""
    folder = tmp_path_factory.mktemp("longer") / "run"
    train(folder, TINY.model_copy(update={"rounds": 9}))
    return folder


@pytest.fixture
def folder(unbroken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unbroken, tmp_path / "run"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


def refused(folder: Path, sentence: str, **settings: object) -> None:
    """Resuming is refused, and changes nothing."""
    before = contents(folder)
    with pytest.raises(InputError, match=sentence):
        resume(folder, settings)
    assert contents(folder) == before


# --------------------------------------------------------------------------------------------------------------- killed


@pytest.mark.parametrize("trial", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_killed_at_a_random_moment(trial: int, unbroken: Path, tmp_path: Path) -> None:
    victim = child(tmp_path / "run")
    victim.join(timeout=random.Random(trial).uniform(0.1, 1.5))
    victim.kill()
    victim.join()
    assert victim.exitcode in (-signal.SIGKILL, 0)
    train(tmp_path / "run")
    same_end(tmp_path / "run", unbroken)


@pytest.mark.parametrize("call", [pytest.param("fsync", marks=pytest.mark.slow), "replace"])
@pytest.mark.parametrize("number", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (*range(1, 10), 15, 25))])
def test_killed_inside_a_write(call: str, number: int, unbroken: Path, tmp_path: Path) -> None:
    victim = child(tmp_path / "run", die_at=(call, number))
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    train(tmp_path / "run")
    same_end(tmp_path / "run", unbroken)


@pytest.mark.parametrize("number", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, *range(4, 13)))])
def test_a_comparison_killed_while_it_starts_is_resumed(number: int, tmp_path: Path) -> None:
    victim = child(tmp_path / "run", BOTH, die_at=("replace", number))
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    train(tmp_path / "run", BOTH)
    train(tmp_path / "straight", BOTH)
    for method in ("fedavg", "smofi"):
        same_end(tmp_path / "run" / method, tmp_path / "straight" / method)


def test_a_run_killed_before_its_first_state_is_begun_again(unbroken: Path, tmp_path: Path) -> None:
    """Its rounds are on record and are shown, and are done again."""
    rare = TINY.model_copy(update={"checkpoint_every": 5})
    (run,) = start(rare, tmp_path / "run")

    def stop(event: object) -> None:
        if type(event).__name__ == "RoundStarted" and len(run.session.run.history) == 3:
            raise KeyboardInterrupt

    run.session.run.emit = stop
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert [record["round"] for record in run.folder.records()] == [1, 2, 3]
    assert run.folder.saved_rounds() == []
    train(tmp_path / "run")
    same_end(tmp_path / "run", unbroken)


# ------------------------------------------------------------------------------------------------------------- going on


def test_the_last_two_states_and_the_best_are_kept(unbroken: Path) -> None:
    names = sorted(path.name for path in (unbroken / "checkpoints").iterdir())
    assert names == ["best.safetensors", "round-000007.safetensors", "round-000008.safetensors"]
    accuracies = [line["validation"] for line in metrics(unbroken)]
    assert RunFolder(unbroken).best().round == accuracies.index(max(accuracies)) + 1  # type: ignore[type-var]


def test_more_rounds_follow_and_the_old_model_stays_until_a_later_state_is_saved(folder: Path, longer: Path) -> None:
    (run,) = resume(folder, {"rounds": 9})
    seen = []

    def look(event: object) -> None:
        if type(event).__name__ in ("RoundStarted", "RoundDone"):
            seen.append((folder / "model.safetensors").exists())

    run.session.run.emit = look
    assert len(run.train().history) == 9
    assert seen[0]
    assert json.loads((folder / "result.json").read_text())["rounds"] == 9
    same_end(folder, longer)


def test_a_model_with_batchnorm_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """Its counters of batches are no statistics: they stay as the model came."""
    config = TINY.model_copy(update={"model": "resnet8", "rounds": 2, "max_train": 600, "max_test": 50})
    train(tmp_path / "straight", config)
    train(tmp_path / "run", config.model_copy(update={"rounds": 1}))
    (run,) = resume(tmp_path / "run", {"rounds": 2})
    run.train()
    same_end(tmp_path / "run", tmp_path / "straight")


def test_a_run_that_diverges_at_once_can_be_resumed(tmp_path: Path) -> None:
    config = TINY.model_copy(update={"optimizer": "sgd(lr=1e30)"})
    for _ in range(2):
        with pytest.warns(TrainingWarning, match="round 1"):
            train(tmp_path / "run", config)
        assert json.loads((tmp_path / "run/result.json").read_text())["diverged"]
    assert RunFolder(tmp_path / "run").saved_rounds() == [0]


# -------------------------------------------------------------------------------------------------- damaged and missing


@pytest.mark.parametrize("what", ["is not what the run saved", "is missing"])
def test_a_damaged_state_falls_back_to_the_one_before(what: str, folder: Path, longer: Path) -> None:
    newest = folder / "checkpoints/round-000008.safetensors"
    content = newest.read_bytes()
    newest.unlink()
    if what != "is missing":
        newest.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.warns(TrainingWarning, match=f"round-000008.safetensors {what}.*; going on from round 7"):
        (run,) = resume(folder, {"rounds": 9})
    assert len(run.session.run.history) == 7
    run.train()
    same_end(folder, longer)
    assert newest.with_suffix(".damaged").exists() == (what != "is missing")


def test_a_finished_run_whose_states_are_lost_is_finished(folder: Path, unbroken: Path) -> None:
    """Its result is shown again; more rounds are refused, naming what is missing; it is never begun again."""
    before = contents(folder)
    train(folder)
    assert contents(folder) == before
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"")
    refused(folder, r"finished after 8 rounds, and more need its last state.*round-000008.* --output NEW", rounds=9)
    shutil.rmtree(folder / "checkpoints")
    with pytest.warns(TrainingWarning, match=r"the run is finished, and needs no state"):
        train(folder)
    same_end(folder, unbroken)
    assert (folder / "result.json").read_bytes() == (unbroken / "result.json").read_bytes()
    (folder / "result.json").unlink()
    refused(folder, "cannot go on: the state to go on from is lost: there is none")


def test_an_unfinished_run_whose_states_are_lost_is_neither_deleted_nor_restarted(folder: Path) -> None:
    RunWriter(RunFolder(folder)).remove_end()
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"")
    refused(folder, r"cannot go on: .*round-000008\.safetensors is not what the run saved")


def test_a_model_that_was_removed_is_written_again(folder: Path, unbroken: Path) -> None:
    for name in ("model.safetensors", "result.json"):
        (folder / name).unlink()
    with pytest.warns(TrainingWarning, match=r"model\.safetensors is missing; .*result\.json is missing"):
        train(folder)
    same_end(folder, unbroken)
    assert (folder / "result.json").read_bytes() == (unbroken / "result.json").read_bytes()


def test_a_state_that_cannot_be_read_at_this_moment_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Checksum.of_file

    def failing(path: Path) -> Checksum:
        if path.name == "round-000008.safetensors":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(Checksum, "of_file", failing)
    refused(folder, r"round-000008\.safetensors cannot be read: Input/output error", rounds=9)


def test_of_a_comparison_that_is_refused_no_run_is_touched(tmp_path: Path) -> None:
    train(whole := tmp_path / "whole", BOTH.model_copy(update={"rounds": 2}))

    def lose_a_partition(both: Path) -> None:
        (both / "fedavg/checkpoints/round-000002.safetensors").write_bytes(b"")  # it could go on from round 1
        (both / "smofi/partition.safetensors").unlink()

    def take_them_for_each_other(both: Path) -> None:
        for old, new in (("fedavg", "other"), ("smofi", "fedavg"), ("other", "smofi")):
            (both / old).rename(both / new)

    for number, (damage, sentence) in enumerate(
        (
            (lose_a_partition, r"smofi/partition\.safetensors is missing"),
            (lambda both: shutil.rmtree(both / "smofi"), "smofi is missing"),
            (take_them_for_each_other, "fedavg is another run than the one that .* compares"),
        )
    ):
        both = Path(shutil.copytree(whole, tmp_path / str(number)))
        damage(both)
        refused(both, sentence, rounds=3)
    with pytest.raises(InputError, match="fedavg is another run"):
        folders_in(both)


# -------------------------------------------------------------------------------------------------------------- refused


def forged(name: str, change: Callable[[RunFolder], bytes]) -> Callable[[Path], None]:
    """A file that the manifest lists as if the run had saved it."""
    return lambda folder: rewritten(folder, name, change(RunFolder(folder)))


def other_rounds(folder: Path) -> None:
    writer = RunWriter(RunFolder(folder))
    writer.write_records([*(records := writer.folder.records())[:-1], records[-1] | {"unheard_of": 1}])


def other_states(folder: Path) -> None:
    narrow = RunFolder(folder).checkpoint(8)
    for round in (7, 8):
        state = StoredCheckpoint(round, narrow.tensors | {"weights": torch.zeros(3)}, narrow.notes)
        rewritten(folder, f"checkpoints/round-{round:06d}.safetensors", state.encode())


ABOUT = "about.json"


@pytest.mark.parametrize(
    ("change", "settings", "sentence"),
    [
        (lambda folder: None, {"rounds": 5}, "rounds=5 is not accepted: expected at least 8"),
        (lambda folder: None, {"seed": 3, "batch_size": 8, "rounds": 20}, "other settings.*(?s:.*)batch_size"),
        (
            forged(ABOUT, lambda run: json.dumps((run.about() or {}) | {"partition_sha256": "0" * 64}).encode()),
            {},
            "another partition of the data",
        ),
        (
            forged(ABOUT, lambda run: json.dumps((run.about() or {}) | {"data_sha256": "0" * 64}).encode()),
            {},
            "was made with other data",
        ),
        (forged(ABOUT, lambda run: b"{}"), {}, r"about\.json cannot be used: expected the partition_sha256"),
        (other_rounds, {}, "the rounds of another version of smofi: .*unheard_of"),
        (other_states, {"rounds": 9}, r"is of another model or method: weights is \(\(3,\), .*expected"),
        (lambda folder: (folder / "config.yaml").unlink(), {}, r"it has no config\.yaml"),
    ],
)
def test_what_cannot_go_on_is_refused(
    change: Callable[[Path], None], settings: dict[str, object], sentence: str, folder: Path
) -> None:
    change(folder)
    refused(folder, sentence, **settings)


def test_a_comparison_that_starts_has_its_folder_to_itself(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "run")  # of a run that is starting there
    with pytest.raises(InputError, match="is being written by another process"):
        start(BOTH, tmp_path / "run")
    lock.release()
