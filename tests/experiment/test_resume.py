"""A run that was killed, wherever it was, ends in the same bits as one that never stopped."""

import builtins
import io
import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from smofi.data import Source
from smofi.errors import InputError, TrainingWarning
from smofi.experiment import resume, start, stored_config
from smofi.runs import RunFolder
from support.crash import TINY, child, metrics, same_end, train


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    process = child(folder)
    process.join()
    assert process.exitcode == 0
    return folder


@pytest.mark.parametrize("trial", [*range(5), *(pytest.param(n, marks=pytest.mark.slow) for n in range(5, 20))])
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


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [4, 10, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7, 15))])
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
    assert len(best.history) == accuracies.index(max(accuracies)) + 1  # type: ignore[type-var]


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
    for name in ("model.safetensors", "result.json"):
        (folder / name).unlink()
    if damage == "gone":
        train(folder)
    else:
        with pytest.warns(TrainingWarning, match="round-000008.safetensors .*falling back to the one before"):
            train(folder)
    same_end(folder, unbroken)


def test_all_checkpoints_damaged_starts_again_and_says_so(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"")
    with pytest.warns(TrainingWarning, match="falling back"):
        train(folder)
    same_end(folder, unbroken)


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


def test_damaged_checkpoints_do_not_push_out_good_ones(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    for path in (folder / "checkpoints").glob("round-*"):
        path.write_bytes(b"")
    with pytest.warns(TrainingWarning, match="falling back"):
        (run,) = resume(folder, {})
    run.session.run.emit = lambda event: run.session.run.interrupt() if type(event).__name__ == "RoundDone" else None
    run.train()
    (again,) = resume(folder, {})
    assert len(again.session.run.history) == 1
    again.close()


def test_the_old_model_is_gone_while_a_resumed_run_has_work_left(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    (run,) = resume(folder, {"rounds": 9})
    assert not (folder / "model.safetensors").exists()
    assert not (folder / "result.json").exists()
    run.train()
    assert json.loads((folder / "result.json").read_text())["rounds"] == 9


def test_fewer_rounds_than_are_done_are_refused(unbroken: Path) -> None:
    with pytest.raises(InputError, match="rounds=5 is not accepted: expected at least 8"):
        resume(unbroken, {"rounds": 5})
    same_end(unbroken, unbroken)


@pytest.mark.parametrize("number", [1, 2, 4, 5, 7, 8, 9])
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
    with pytest.raises(InputError, match=r"holds a run already.*smofi run --resume"):
        start(TINY, unbroken)
    assert (unbroken / "model.safetensors").read_bytes() == before


def test_a_folder_that_holds_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no config\.yaml"):
        resume(tmp_path, {})


def test_changed_data_is_noticed(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps(about | {"partition_sha256": "0" * 64}))
    with pytest.raises(InputError, match="another partition of the data"):
        resume(folder, {})


def test_a_folder_without_its_fingerprints_is_refused(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    (folder / "about.json").write_text("{}")
    with pytest.raises(InputError, match=r"about\.json cannot be used: expected the partition_sha256"):
        resume(folder, {})


def test_a_history_of_another_version_is_a_damaged_checkpoint(unbroken: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(unbroken, folder.path)
    newest = folder.checkpoint(8)
    newest.history[-1]["unheard_of"] = 1
    folder.save_checkpoint(newest, keep=2)
    with pytest.warns(TrainingWarning, match=r"round-000008.safetensors .*unheard_of.*; falling back to the one"):
        train(folder.path)
    same_end(folder.path, unbroken)


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
