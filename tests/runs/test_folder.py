"""The files of a run, written and read; whatever is not what the run saved is named in words."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from smofi.errors import InputError
from smofi.runs import (
    DamagedFile,
    RunFolder,
    RunWriter,
    StoredCheckpoint,
    folders_for,
    folders_in,
    partition_in,
    read_checkpoint,
    write_tracker_id,
)
from support.run_folder import rewritten, write_comparison, write_run

CONFIG = "rounds: 2\n"


@dataclass
class Round:
    round: int
    loss: float | None = 0.5


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is brought to the disk: a busy one takes seconds for what is written here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def state(round: int) -> StoredCheckpoint:
    return StoredCheckpoint(round, {"weights": torch.ones(2)}, {})


def rounds(count: int) -> list[Round]:
    return [Round(number) for number in range(1, count + 1)]


def saved(path: Path, count: int) -> RunWriter:
    """A run with a state for its last two rounds."""
    writer = write_run(path, CONFIG)
    for number in range(1, count + 1):
        writer.append_records(rounds(number), listed=False)
        writer.save(state(number), keep=2)
    return writer


def states(path: Path) -> list[str]:
    return sorted(one.name for one in (path / "checkpoints").iterdir())


# ------------------------------------------------------------------------------------------------ written and read back


def test_what_describes_a_run_is_read_back_and_its_configuration_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        assert not RunFolder(tmp_path / "run").has_run
        replace(source, target)
        written.append(target.name)

    folder = RunFolder(tmp_path / "run")
    assert (folder.has_run, folder.config(), folder.records(), folder.damaged()) == (False, None, [], [])
    monkeypatch.setattr(os, "replace", watched)
    write_run(folder.path, CONFIG, about={"seed": 3})
    assert written == ["manifest.json", "partition.safetensors", "about.json", "config.yaml"]
    about = folder.about()
    assert about is not None
    assert (about["seed"], about["run"], len(about["partition_sha256"])) == (3, folder.manifest().run, 64)
    assert (folder.config(), folder.result(), folder.damaged()) == ({"rounds": 2}, None, [])


def test_rounds_count_when_they_are_listed(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    metrics = tmp_path / "run/metrics.jsonl"
    writer.append_records([Round(1, float("nan")), Round(2)])
    known = [{"round": 1, "loss": None}, {"round": 2, "loss": 0.5}]
    assert writer.folder.records() == known
    for half in ('{"round": 3', "}\n", "\n" * 99):  # being written, whole but not listed, or anything else
        with open(metrics, "a") as file:
            file.write(half)
        assert (writer.folder.records(), writer.folder.damaged()) == (known, [])
    with open(metrics, "r+b") as file:
        file.truncate(2**34)
    assert writer.folder.records() == known
    writer.append_records(rounds(3))  # in place of what is not listed
    assert writer.folder.records() == [*known, {"round": 3, "loss": 0.5}]
    metrics.unlink()  # while the run goes on
    writer.append_records(rounds(4))
    assert [record["round"] for record in writer.folder.records()] == [1, 2, 3, 4]


@pytest.mark.parametrize("line", [0, 2])
def test_any_changed_or_missing_round_is_noticed(line: int, tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    writer.append_records(rounds(3))
    metrics = tmp_path / "run/metrics.jsonl"
    whole = metrics.read_text()
    lines = whole.splitlines(keepends=True)
    lines[line] = lines[line].replace("0.5", "0.9")
    metrics.write_text("".join(lines))
    with pytest.raises(DamagedFile, match=r"metrics\.jsonl is not what the run saved.*Put the original back, or start"):
        writer.folder.records()
    for left in (whole[:-1], "", None):
        metrics.unlink()
        if left is not None:
            metrics.write_text(left)
        with pytest.raises(DamagedFile, match=r"metrics\.jsonl lacks rounds that were saved: expected at least 3"):
            writer.folder.records()
        metrics.touch()


def test_the_newest_states_are_kept_and_damaged_ones_are_set_aside(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 3)
    writer.save_best(state(1))
    folder, path = writer.folder, writer.path / "checkpoints/round-000003.safetensors"
    assert (folder.saved_rounds(), folder.checkpoint(3).round, folder.best().round) == ([2, 3], 3, 1)
    for _ in range(2):
        path.write_bytes(b"damaged")
        with pytest.raises(DamagedFile, match=r"round-000003\.safetensors is not what the run saved"):
            folder.checkpoint(3)
        assert str(path) in str(folder.damaged())
        writer.set_aside(3)
        assert (folder.saved_rounds(), folder.damaged()) == ([2], [])
        writer.save(state(3), keep=2)
    kept = ["round-000002.safetensors", "round-000003.damaged", "round-000003.damaged2", "round-000003.safetensors"]
    assert states(writer.path) == ["best.safetensors", *kept]
    shutil.rmtree(tmp_path / "run/checkpoints")
    writer.save(state(4), keep=2)  # makes the folder again
    assert folder.checkpoint(4).round == 4


def test_trackers_have_names_of_their_own_for_a_run(tmp_path: Path) -> None:
    folder, other = (write_run(tmp_path / name, CONFIG).folder for name in ("run", "other"))
    for tracker, id in (("wandb", "a"), ("mlflow", "b"), ("wandb", "c")):
        write_tracker_id(folder, tracker, id)
    assert folder.tracker_ids() == {"wandb": "c", "mlflow": "b"}
    shutil.copy(folder.path / "tracking.json", other.path)
    with pytest.raises(DamagedFile, match=r"tracking\.json is not what the run saved"):
        other.tracker_ids()
    assert ["tracking.json" in error.what for error in other.damaged()] == [True]


def test_a_state_round_trips_exactly_and_no_part_of_it_is_taken_for_one(tmp_path: Path) -> None:
    tensors = {"counts": torch.tensor([7]), "memory": torch.zeros(0, 3), "weights": torch.tensor([-0.0, float("inf")])}
    path, whole = tmp_path / "state", StoredCheckpoint(2, tensors, {"warned": False, "began": 2.5}).encode()
    path.write_bytes(whole)
    again = read_checkpoint(path)
    assert (again.round, again.notes, list(again.tensors)) == (2, {"warned": False, "began": 2.5}, list(tensors))
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in tensors.items())
    for length in range(0, len(whole), 31):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile, match="state cannot be read as a checkpoint"):
            read_checkpoint(path)
    for about in ("", "{", "[]", "[" * 100_000, '{"format": "9"}'):
        save_file({"weights": torch.zeros(2)}, path, metadata={"smofi": about} if about else {})
        with pytest.raises(DamagedFile, match=r"state (cannot be read as a checkpoint|has format '9': expected)"):
            read_checkpoint(path)


# -------------------------------------------------------------------------------------------------- killed, and no room


def test_at_every_moment_all_that_is_listed_is_there_and_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run goes on for a round, broken off at each of these calls as by a kill: no file is then refused."""
    before = saved(tmp_path / "before", 2)
    before.save_best(state(1))
    before.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
    for stop_at in range(1, 200):
        shutil.copytree(before.path, run := tmp_path / str(stop_at))
        calls = 0

        def counted(real: Callable[..., Any], stop_at: int = stop_at) -> Callable[..., Any]:
            def call(*arguments: Any, **more: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == stop_at:
                    raise SystemExit
                return real(*arguments, **more)

            return call

        with monkeypatch.context() as patch:
            for name in ("replace", "fsync", "unlink"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                go_on(RunWriter(RunFolder(run)))
                break
            except SystemExit:
                pass
        folder = RunFolder(run)
        assert folder.damaged() == [], stop_at
        assert folder.config() in ({"rounds": 2}, {"rounds": 3})
        assert len(folder.records()) in (2, 3)
        assert all(folder.checkpoint(round).round == round for round in folder.saved_rounds())
        assert RunWriter(folder).missing() == []
        assert not folder.has_model or folder.ended() in (2, 3)
        shutil.rmtree(run)
    assert stop_at > 40


def go_on(writer: RunWriter) -> None:
    writer.write_config("rounds: 3\n")
    writer.write_records([{"round": 1}, {"round": 2, "loss": 0.7}])
    writer.append_records(rounds(3))
    writer.save(state(3), keep=2, best=True)
    writer.remove_end()
    writer.write_end({"bias": torch.ones(2)}, {"rounds": 3})


@pytest.mark.parametrize("count", [1, 2])
def test_an_old_state_is_given_up_for_a_newer_one_but_never_the_last(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has room for as many states, and for small files."""
    writer = saved(tmp_path / "run", count)
    replace, kept = os.replace, tmp_path / "run/checkpoints"

    def little_room(source: Path, target: Path) -> None:
        if target.parent == kept and len(list(kept.glob("round-*"))) >= count:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", little_room)
    writer.append_records(rounds(count + 1))
    if count == 1:
        with pytest.raises(OSError, match="No space left"):
            writer.save(state(2), keep=2)
    else:
        writer.save(state(3), keep=2)
    assert writer.folder.saved_rounds() == ([1] if count == 1 else [2, 3])
    assert writer.folder.damaged() == []


def test_a_state_that_cannot_be_listed_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = saved(tmp_path / "run", 2)
    replace = os.replace

    def no_room_for_a_list(source: Path, target: Path) -> None:
        if target.name == "manifest.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    writer.append_records(rounds(3))
    monkeypatch.setattr(os, "replace", no_room_for_a_list)
    with pytest.raises(OSError, match="No space left"):
        writer.save(state(3), keep=2)
    monkeypatch.undo()
    assert states(writer.path) == ["round-000001.safetensors", "round-000002.safetensors"]
    (writer.path / "checkpoints/round-000000.safetensors").touch()  # left by a process that was killed
    writer.save(state(3), keep=2)
    assert states(writer.path) == ["round-000002.safetensors", "round-000003.safetensors"]


# --------------------------------------------------------------------------------------------------- damaged or crafted


@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "forged"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.yaml", b"a: [1", "cannot be read as YAML"),
        ("config.yaml", b"\xff\xfe", "is not text: byte 1 is not UTF-8"),
        ("config.yaml", b"a: !!python/object:os.system x", "could not determine a constructor"),
        ("config.yaml", b"a: &a [1]\nb: *a", "alias"),
        ("config.yaml", b"[" * 5000, "nested too deeply"),
        ("about.json", b"\xff", "'utf-8' codec can't decode"),
        ("about.json", b"[]", "expected keys and values"),
        ("result.json", b"3", "expected keys and values"),
        ("model.safetensors", b"\x80\x04N.", "cannot be read"),  # pickle is not even tried
    ],
)
def test_a_damaged_file_is_named(name: str, content: bytes, sentence: str, forged: bool, tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    writer.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
    if forged:
        rewritten(tmp_path / "run", name, content)
    else:
        (tmp_path / "run" / name).write_bytes(content)
        sentence = r"is not what the run saved \(its checksum differs\).*\. Put the original back"
    with pytest.raises(InputError, match=f"{name} .*{sentence}"):
        getattr(writer.folder, Path(name).stem)()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[:-10], "is not what the run saved"),
        (lambda text: text.replace('"rounds": 0', '"rounds": 7'), "is not what the run saved"),
        (lambda text: "[" * 100_000, "is not what the run saved"),
        (lambda text: None, "is missing, and without it no file of the run can be checked"),
    ],
)
def test_without_its_manifest_nothing_is_believed(
    change: Callable[[str], str | None], sentence: str, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run", CONFIG).folder
    path = folder.path / "manifest.json"
    changed = change(path.read_text())
    path.unlink()
    if changed is not None:
        path.write_text(changed)
    for read in (folder.config, folder.records, folder.saved_rounds, folder.damaged, lambda: folders_in(folder.path)):
        with pytest.raises(DamagedFile, match=rf"manifest\.json {sentence}.*start anew in another folder: smofi run"):
            read()


def test_a_folder_or_a_pipe_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", CONFIG, [{"round": 1}]).folder
    folder.config_file.unlink()
    folder.config_file.mkdir()
    (folder.path / "metrics.jsonl").unlink()
    os.mkfifo(folder.path / "metrics.jsonl")
    with pytest.raises(InputError, match=r"config\.yaml is a folder"):
        folder.config()
    with pytest.raises(InputError, match=r"metrics\.jsonl is not a regular file"):
        folder.records()


# ---------------------------------------------------------------------------------------------------------- comparisons


def test_one_method_has_the_folder_and_several_have_one_each(tmp_path: Path) -> None:
    assert [folder.path for folder in folders_for(tmp_path, ["smofi"])] == [tmp_path]
    folders = folders_for(tmp_path, ["smofi", "fedavg"])
    assert [folder.path.name for folder in folders] == ["smofi", "fedavg"]
    for folder in folders:
        write_run(folder.path, CONFIG)
    write_comparison(tmp_path, CONFIG, ["smofi", "fedavg"])
    assert folders_in(tmp_path) == folders
    assert folders_in(tmp_path / "smofi") == [RunFolder(tmp_path / "smofi")]
    assert partition_in(tmp_path) == partition_in(tmp_path / "smofi") == tmp_path / "smofi/partition.safetensors"
    (tmp_path / "fedavg/config.yaml").unlink()
    with pytest.raises(DamagedFile, match=r"fedavg is missing, or has no config\.yaml: it is one of the runs"):
        folders_in(tmp_path)


def test_a_run_is_found_by_its_configuration(tmp_path: Path) -> None:
    assert partition_in(tmp_path) is None
    (tmp_path / "metrics.jsonl").write_text('{"round": 1}\n')
    for path, sentence in ((tmp_path, r"it has no config\.yaml"), (tmp_path / ("x" * 300), "File name too long")):
        with pytest.raises(InputError, match=f"expected the folder of a run, but {sentence}"):
            folders_in(path)
