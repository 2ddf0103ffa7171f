"""A run that was killed, wherever it was, ends in the same bits as one that never stopped."""

import builtins
import errno
import io
import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from smofi.data import Source
from smofi.errors import InputError, TrainingWarning
from smofi.experiment import resume, start, stored_config
from smofi.runs import FolderLock, RunFolder, RunWriter, StoredCheckpoint, folders_in
from smofi.runs.folder import Checksum
from support.crash import TINY, child, metrics, same_end, train
from support.run_folder import rewritten


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    process = child(folder)
    process.join()
    assert process.exitcode == 0
    return folder


@pytest.mark.parametrize("trial", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_killed_at_a_random_moment(trial: int, unbroken: Path, tmp_path: Path) -> None:
    moments = random.Random(trial)
    begun = time.monotonic()
    victim = child(tmp_path / "run")
    victim.join(timeout=moments.uniform(0.1, 1.5))
    victim.kill()
    victim.join()
    assert victim.exitcode in (-signal.SIGKILL, 0)
    assert time.monotonic() - begun < 60
    survivor = child(tmp_path / "run")
    survivor.join()
    assert survivor.exitcode == 0
    same_end(tmp_path / "run", unbroken)


@pytest.mark.parametrize("call", [pytest.param("fsync", marks=pytest.mark.slow), "replace"])
@pytest.mark.parametrize("number", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (*range(1, 10), 15, 25))])
def test_killed_inside_a_write(call: str, number: int, unbroken: Path, tmp_path: Path) -> None:
    victim = child(tmp_path / "run", die_at=(call, number))
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    survivor = child(tmp_path / "run")
    survivor.join()
    assert survivor.exitcode == 0
    same_end(tmp_path / "run", unbroken)


def test_the_last_two_checkpoints_and_the_best_are_kept(unbroken: Path) -> None:
    names = sorted(path.name for path in (unbroken / "checkpoints").iterdir())
    assert names == ["best.safetensors", "round-000007.safetensors", "round-000008.safetensors"]
    history = metrics(unbroken)
    accuracies = [line["validation"] for line in history]
    best = RunFolder(unbroken).best()
    assert best.round == accuracies.index(max(accuracies)) + 1  # type: ignore[type-var]


@pytest.mark.parametrize("damage", ["truncated", "a flipped bit", "empty", "text", "gone"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(damage: str, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    newest = folder / "checkpoints" / "round-000008.safetensors"
    content = bytearray(newest.read_bytes())
    if damage == "truncated":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "a flipped bit":
        content[-3] ^= 1
        newest.write_bytes(content)
    elif damage == "gone":
        newest.unlink()
    else:
        newest.write_bytes(b"" if damage == "empty" else b"not a checkpoint")
    what = "is missing" if damage == "gone" else "is not what the run saved"
    with pytest.warns(TrainingWarning, match=f"round-000008.safetensors {what}.*; going on from round 7"):
        (run,) = resume(folder, {"rounds": 9})
    assert len(run.session.run.history) == 7
    run.train()
    (straight,) = start(TINY.model_copy(update={"rounds": 9}), tmp_path / "straight")
    straight.train()
    same_end(folder, tmp_path / "straight")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("how", ["deleted", "emptied", "folder gone"])
def test_a_finished_run_whose_states_are_lost_is_finished(how: str, unbroken: Path, tmp_path: Path) -> None:
    """Its result is shown again; more rounds are refused, naming what is missing; nothing is changed by that."""
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"") if how == "emptied" else path.unlink()
    if how == "folder gone":
        shutil.rmtree(folder / "checkpoints")
    before = contents(folder)
    with pytest.raises(
        InputError, match=r"it is finished after 8 rounds, and more need its last state.*round-000008"
    ) as no:
        resume(folder, {"rounds": 9})
    assert f"start anew in another folder: smofi run {folder}/config.yaml --output NEW" in str(no.value)
    assert contents(folder) == before
    with pytest.warns(TrainingWarning, match=r"the run is finished, and needs no state"):
        train(folder)
    same_end(folder, unbroken)
    assert (folder / "result.json").read_bytes() == (unbroken / "result.json").read_bytes()


def test_a_run_whose_states_are_lost_is_neither_deleted_nor_restarted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (run,) = start(TINY.model_copy(update={"rounds": 20}), folder)
    run.session.run.emit = lambda event: run.session.run.interrupt() if getattr(event, "tick", 0) else None
    run.train()
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"")
    before = contents(folder)
    with pytest.raises(InputError, match=r"cannot go on: .*round-000001\.safetensors is not what the run saved"):
        resume(folder, {})
    assert contents(folder) == before


def test_a_model_that_was_removed_is_written_again(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    for name in ("model.safetensors", "result.json"):
        (folder / name).unlink()
    with pytest.warns(TrainingWarning, match=r"model\.safetensors is missing; .*result\.json is missing"):
        train(folder)
    same_end(folder, unbroken)
    assert (folder / "result.json").read_bytes() == (unbroken / "result.json").read_bytes()


def test_a_finished_run_that_has_lost_all_but_its_model_is_not_begun_again(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    shutil.rmtree(folder / "checkpoints")
    with pytest.warns(TrainingWarning, match="needs no state"):
        train(folder)
    (folder / "result.json").unlink()
    before = contents(folder)
    with pytest.raises(InputError, match="cannot go on: the state to go on from is lost: there is none"):
        resume(folder, {})
    assert contents(folder) == before


def test_runs_of_a_comparison_are_not_taken_for_each_other(tmp_path: Path) -> None:
    both = TINY.model_copy(update={"method": ("fedavg", "smofi"), "rounds": 1})
    train(tmp_path / "run", both)
    for old, new in (("fedavg", "other"), ("smofi", "fedavg"), ("other", "smofi")):
        (tmp_path / "run" / old).rename(tmp_path / "run" / new)
    before = contents(tmp_path / "run")
    for asked in (lambda: resume(tmp_path / "run", {"rounds": 2}), lambda: folders_in(tmp_path / "run")):
        with pytest.raises(InputError, match=r"fedavg is another run than the one that .* compares"):
            asked()
    assert contents(tmp_path / "run") == before


def test_a_comparison_that_starts_has_its_folder_to_itself(tmp_path: Path) -> None:
    both = TINY.model_copy(update={"method": ("fedavg", "smofi"), "rounds": 1})
    other = FolderLock(tmp_path / "run")  # a run that is starting there
    with pytest.raises(InputError, match="is being written by another process"):
        start(both, tmp_path / "run")
    other.release()
    for one in start(both, tmp_path / "run"):
        one.close()


def test_a_run_that_diverges_at_once_can_be_resumed(tmp_path: Path) -> None:
    config = TINY.model_copy(update={"optimizer": "sgd(lr=1e30)"})
    for _ in range(2):
        with pytest.warns(TrainingWarning, match="round 1"):
            train(tmp_path / "run", config)
        assert json.loads((tmp_path / "run/result.json").read_text())["diverged"]
    assert RunFolder(tmp_path / "run").saved_rounds() == [0]


def test_a_state_that_cannot_be_read_at_this_moment_is_kept(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    before, real = contents(folder), Checksum.of_file

    def failing(path: Path) -> Checksum:
        if path.name == "round-000008.safetensors":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(Checksum, "of_file", failing)
    with pytest.raises(InputError, match=r"round-000008\.safetensors cannot be read: Input/output error"):
        resume(folder, {"rounds": 9})
    assert contents(folder) == before


def test_resuming_a_finished_run_changes_nothing(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    before = contents(folder)
    train(folder)
    assert contents(folder) == before


def test_more_rounds_continue_where_the_run_ended(unbroken: Path, tmp_path: Path) -> None:
    folder, straight = tmp_path / "run", tmp_path / "straight"
    shutil.copytree(unbroken, folder)
    (run,) = resume(folder, {"rounds": 10})
    assert len(run.train().history) == 10
    (run,) = start(TINY.model_copy(update={"rounds": 10}), straight)
    run.train()
    same_end(folder, straight)


def test_a_model_with_batchnorm_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """Its counters of batches are no statistics: they stay as the model came."""
    config = TINY.model_copy(update={"model": "resnet8", "rounds": 3})
    train(tmp_path / "straight", config)
    train(tmp_path / "run", config.model_copy(update={"rounds": 1}))
    (run,) = resume(tmp_path / "run", {"rounds": 3})
    run.train()
    same_end(tmp_path / "run", tmp_path / "straight")


def test_the_old_model_stays_until_a_later_state_is_saved(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    (run,) = resume(folder, {"rounds": 10})
    seen = []

    def look(event: object) -> None:
        if type(event).__name__ == "RoundStarted":
            seen.append((folder / "model.safetensors").exists())

    run.session.run.emit = look
    run.train()
    assert seen == [True, False]
    assert json.loads((folder / "result.json").read_text())["rounds"] == 10


def test_fewer_rounds_than_are_done_are_refused(unbroken: Path) -> None:
    with pytest.raises(InputError, match="rounds=5 is not accepted: expected at least 8"):
        resume(unbroken, {"rounds": 5})
    same_end(unbroken, unbroken)


@pytest.mark.parametrize("number", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, *range(4, 13)))])
def test_a_comparison_killed_while_it_starts_is_resumed(number: int, tmp_path: Path) -> None:
    both = TINY.model_copy(update={"method": ("fedavg", "smofi"), "rounds": 1})
    victim = child(tmp_path / "run", both, die_at=("replace", number))
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    train(tmp_path / "run", both)
    train(tmp_path / "straight", both)
    for method in ("fedavg", "smofi"):
        same_end(tmp_path / "run" / method, tmp_path / "straight" / method)


def test_other_settings_are_refused_field_by_field(unbroken: Path) -> None:
    with pytest.raises(InputError, match="cannot be resumed with other settings") as refused:
        resume(unbroken, {"seed": 3, "batch_size": 8, "rounds": 20})
    assert "seed" in str(refused.value)
    assert "batch_size" in str(refused.value)
    assert "rounds" not in str(refused.value)


def test_a_folder_with_a_run_is_not_overwritten(unbroken: Path) -> None:
    before = (unbroken / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"already contains a run.*smofi run --resume"):
        start(TINY, unbroken)
    assert (unbroken / "model.safetensors").read_bytes() == before


def test_a_folder_that_holds_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no config\.yaml"):
        resume(tmp_path, {})


def test_changed_data_is_noticed(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    about = json.loads((folder / "about.json").read_text())
    rewritten(folder, "about.json", json.dumps(about | {"partition_sha256": "0" * 64}).encode())
    with pytest.raises(InputError, match="another partition of the data"):
        resume(folder, {})


def test_a_folder_without_its_fingerprints_is_refused(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    rewritten(folder, "about.json", b"{}")
    with pytest.raises(InputError, match=r"about\.json cannot be used: expected the partition_sha256"):
        resume(folder, {})


def test_the_rounds_of_another_version_are_refused(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    writer = RunWriter(RunFolder(folder))
    records = writer.folder.records()
    writer.write_records([*records[:-1], records[-1] | {"unheard_of": 1}])
    with pytest.raises(InputError, match=r"the rounds of another version of smofi: .*unheard_of"):
        resume(folder, {})


def test_a_state_of_another_model_is_refused(unbroken: Path, tmp_path: Path) -> None:
    """Even if the manifest lists it."""
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    narrow = RunFolder(folder).checkpoint(8)
    for round in (7, 8):
        state = StoredCheckpoint(round, narrow.tensors | {"weights": torch.zeros(3)}, narrow.notes)
        rewritten(folder, f"checkpoints/round-{round:06d}.safetensors", state.encode())
    with pytest.raises(InputError, match=r"is of another model or method: weights is \(\(3,\), .*expected"):
        resume(folder, {"rounds": 9})


def test_the_configuration_is_read_once_and_the_data_hashed_once(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    read: list[Path] = []
    hashed: list[Source] = []
    real_open, real_hash = open, Source.fingerprint

    def watched_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "r" in mode and file in (folder / "config.yaml", folder / "about.json"):
            read.append(file)
        return real_open(file, mode, *arguments, **options)

    def watched_hash(source: Source) -> str:
        hashed.append(source)
        return real_hash(source)

    for module in (builtins, io):
        monkeypatch.setattr(module, "open", watched_open)
    monkeypatch.setattr(Source, "fingerprint", watched_hash)
    (run,) = resume(folder, {"rounds": 9})
    run.close()
    assert sorted(read) == [folder / "about.json", folder / "config.yaml"]
    assert len(hashed) == 1
    config = stored_config(folder, {"rounds": 10})
    read.clear()
    (run,) = resume(folder, config)
    run.close()
    assert run.session.run.rounds == 10
    assert read == [folder / "about.json"]
