"""The files of a run, written and read; whatever is not what the run saved is named in words."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from smofi.errors import InputError
from smofi.runs import (
    DamagedFile,
    RunFolder,
    RunWriter,
    StoredCheckpoint,
    folders_for,
    folders_in,
    partition_in,
    write_tracker_id,
)
from support.run_folder import rewritten, write_comparison, write_run

CONFIG = "rounds: 2\n"


@dataclass
class Round:
    round: int
    loss: float | None = 0.5


def state(round: int) -> StoredCheckpoint:
    return StoredCheckpoint(round, {"weights": torch.ones(2)}, {})


def saved(path: Path, rounds: int) -> RunWriter:
    """A run with a state for its last two rounds."""
    writer = write_run(path, CONFIG)
    for number in range(1, rounds + 1):
        writer.append_records([Round(number) for number in range(1, number + 1)])
        writer.save(state(number), keep=2)
    return writer


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.has_run
    assert not folder.has_best
    assert not folder.has_model
    assert (folder.config(), folder.about(), folder.result()) == (None, None, None)
    assert (folder.records(), folder.saved_rounds(), folder.tracker_ids(), folder.damaged()) == ([], [], {}, [])


def test_what_describes_a_run_is_read_back(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", CONFIG, about={"seed": 3}).folder
    about = folder.about()
    assert folder.config() == {"rounds": 2}
    assert about is not None
    assert (about["seed"], about["run"]) == (3, folder.manifest().run)
    assert len(about["partition_sha256"]) == 64
    assert folder.damaged() == []


def test_a_folder_has_a_run_only_when_all_of_its_description_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        assert not RunFolder(tmp_path / "run").has_run
        replace(source, target)
        written.append(target.name)

    monkeypatch.setattr(os, "replace", watched)
    write_run(tmp_path / "run", CONFIG)
    assert written == ["manifest.json", "partition.safetensors", "about.json", "config.yaml"]


def test_rounds_are_appended_and_one_still_being_written_does_not_count(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    metrics, sums = tmp_path / "run" / "metrics.jsonl", tmp_path / "run" / "metrics.sums"
    history = [Round(1, float("nan")), Round(2), Round(3)]
    writer.append_records(history[:1])
    writer.append_records(history[:2])
    known = [{"round": 1, "loss": None}, {"round": 2, "loss": 0.5}]
    assert writer.folder.records() == known
    with open(metrics, "a") as file:
        file.write('{"round": 3')
    assert writer.folder.records() == known
    with open(metrics, "a") as file:
        file.write("}\n")  # whole, and its checksum is not written yet
    assert writer.folder.records() == known
    writer.append_records(history)  # in place of what is not finished
    assert writer.folder.records() == [*known, {"round": 3, "loss": 0.5}]
    assert len(sums.read_text().splitlines()) == 3
    writer.save(state(3), keep=2)
    assert sums.read_text() == ""
    assert len(writer.folder.records()) == 3


@pytest.mark.parametrize("line", [0, 1, 2])
def test_any_changed_round_is_noticed_whether_saved_or_not(line: int, tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    writer.append_records([Round(1), Round(2), Round(3), Round(4)])
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    lines[line] = lines[line].replace("0.5", "0.9")
    metrics.write_text("".join(lines))
    with pytest.raises(DamagedFile, match=r"metrics\.jsonl is not what the run saved.*Put the original back, or start"):
        writer.folder.records()


def test_rounds_that_were_saved_may_not_be_missing(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 3)
    metrics = tmp_path / "run" / "metrics.jsonl"
    content = metrics.read_text()
    for left in ("".join(content.splitlines(keepends=True)[:2]), content[:-1], ""):
        metrics.write_text(left)
        with pytest.raises(DamagedFile, match=r"metrics\.jsonl lacks rounds that were saved: expected at least 3"):
            writer.folder.records()
    metrics.unlink()
    with pytest.raises(DamagedFile, match="lacks rounds"):
        writer.folder.records()


def test_rounds_removed_while_the_run_goes_on_are_written_again(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    writer.append_records([Round(1), Round(2), Round(3)])
    assert [record["round"] for record in writer.folder.records()] == [1, 2, 3]


def test_what_a_round_adds_does_not_grow_with_the_rounds(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    history: list[Round] = []
    sizes = []
    for number in range(1, 41):
        history.append(Round(number + 1000))  # of the same length each
        writer.append_records(history)
        writer.save(state(number), keep=2)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file()))
    grown = [after - before for before, after in pairwise(sizes[5:])]
    assert max(grown) <= len('{"round": 1040, "loss": 0.5}\n') + 5  # and a digit or two in the manifest


def test_the_newest_checkpoints_are_kept_and_a_damaged_one_is_set_aside(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 3)
    writer.save_best(state(1))
    folder = writer.folder
    assert folder.saved_rounds() == [2, 3]
    assert (folder.checkpoint(3).round, folder.best().round) == (3, 1)
    path = folder.path / "checkpoints" / "round-000003.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(DamagedFile, match=r"round-000003\.safetensors is not what the run saved"):
        folder.checkpoint(3)
    assert [error.what.partition(" is ")[0] for error in folder.damaged()] == [str(path)]
    writer.set_aside(3)
    assert folder.saved_rounds() == [2]
    assert (folder.path / "checkpoints" / "round-000003.damaged").exists()
    assert folder.damaged() == []


def test_an_end_is_written_read_and_removed(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    writer.write_end({"layer.bias": torch.arange(3.0, requires_grad=True)}, {"rounds": 2, "stopped": None})
    assert writer.folder.result() == {"rounds": 2, "stopped": None}
    assert writer.folder.model()["layer.bias"].tolist() == [0.0, 1.0, 2.0]
    assert RunWriter(writer.folder).ended == writer.ended == 2
    writer.remove_end()
    writer.remove_end()
    assert writer.folder.result() is None
    assert not writer.folder.model_file.exists()


def test_a_checkpoints_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    (tmp_path / "run" / "checkpoints").rmdir()
    writer.append_records([Round(1), Round(2), Round(3)])
    writer.save(state(3), keep=2)
    assert writer.folder.checkpoint(3).round == 3


@pytest.mark.parametrize(("states", "given_up"), [(1, False), (2, True)])
def test_an_old_state_is_given_up_for_a_newer_one_but_never_the_last(
    states: int, given_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has room for two states, and for small files."""
    writer = saved(tmp_path / "run", states)
    kept = tmp_path / "run" / "checkpoints"
    replace, full = os.replace, OSError(errno.ENOSPC, "No space left on device")

    def little_room(source: Path, target: Path) -> None:
        if target.parent == kept and len(list(kept.glob("round-*"))) >= 1 + given_up:
            raise full
        replace(source, target)

    monkeypatch.setattr(os, "replace", little_room)
    writer.append_records([Round(number) for number in range(1, states + 2)])
    if given_up:
        writer.save(state(states + 1), keep=2)
    else:
        with pytest.raises(OSError, match="No space left"):
            writer.save(state(states + 1), keep=2)
    assert writer.folder.saved_rounds() == ([2, 3] if given_up else [1])
    assert writer.folder.damaged() == []


CALLS = ("replace", "fsync", "unlink")


@pytest.mark.parametrize("call", CALLS)
def test_at_every_moment_all_that_is_listed_is_there_and_believed(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on is broken off at each of these calls, as by a kill: no file of the folder is then refused."""
    real = getattr(os, call)
    for stop_at in range(1, 100):
        run = tmp_path / str(stop_at)
        writer = saved(run, 2)
        writer.save_best(state(1))
        writer.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
        left = iter(range(1, stop_at))

        def broken_off(*arguments: Any, left: Any = left, **more: Any) -> Any:
            if next(left, None) is None:
                raise SystemExit
            return real(*arguments, **more)

        monkeypatch.setattr(os, call, broken_off)
        try:
            go_on(writer)
            ended = True
        except SystemExit:
            ended = False
        monkeypatch.undo()
        folder = RunFolder(run)
        assert folder.damaged() == [], stop_at
        assert folder.config() in ({"rounds": 2}, {"rounds": 3})
        assert len(folder.records()) in (2, 3)
        assert all(folder.checkpoint(round).round == round for round in folder.saved_rounds())
        assert RunWriter(folder).missing() == []
        assert not folder.has_model or folder.ended() in (2, 3)
        if ended:
            break
    assert stop_at > (3 if call == "unlink" else 10)


def go_on(writer: RunWriter) -> None:
    """What a finished run does that goes on for a round."""
    writer.write_config("rounds: 3\n")
    writer.write_records([{"round": 1}, {"round": 2, "loss": 0.7}])
    writer.append_records([Round(1), Round(2), Round(3)])
    writer.save(state(3), keep=2, best=True)
    writer.remove_end()
    writer.write_end({"bias": torch.ones(2)}, {"rounds": 3})


def test_a_state_that_cannot_be_listed_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = saved(tmp_path / "run", 2)
    replace = os.replace

    def no_room_for_a_list(source: Path, target: Path) -> None:
        if target.name == "manifest.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    writer.append_records([Round(1), Round(2), Round(3)])
    monkeypatch.setattr(os, "replace", no_room_for_a_list)
    with pytest.raises(OSError, match="No space left"):
        writer.save(state(3), keep=2)
    monkeypatch.undo()
    kept = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in kept.iterdir()) == ["round-000001.safetensors", "round-000002.safetensors"]
    (kept / "round-000000.safetensors").touch()  # left by a process that was killed
    writer.save(state(3), keep=2)
    assert sorted(path.name for path in kept.iterdir()) == ["round-000002.safetensors", "round-000003.safetensors"]


def test_a_file_that_was_put_back_is_not_removed(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    writer.save_best(state(2))
    writer.forget(["checkpoints/best.safetensors"])
    assert (writer.path / "checkpoints/best.safetensors").exists()
    for _ in range(2):
        (tmp_path / "run" / "checkpoints" / "round-000002.safetensors").write_bytes(b"damaged")
        writer.set_aside(2)
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*.damaged*"))
    assert kept == ["round-000002.damaged", "round-000002.damaged2"]


def test_a_file_that_is_as_it_should_be_is_left_alone(tmp_path: Path) -> None:
    writer = saved(tmp_path / "run", 2)
    writer.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
    paths = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}
    again = RunWriter(RunFolder(tmp_path / "run"))
    again.write_records(again.folder.records())
    again.write_config(CONFIG)
    again.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths} == before


def test_trackers_have_names_of_their_own_for_a_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", CONFIG).folder
    write_tracker_id(folder, "wandb", "a")
    write_tracker_id(folder, "mlflow", "b")
    write_tracker_id(folder, "wandb", "c")
    assert folder.tracker_ids() == {"wandb": "c", "mlflow": "b"}
    other = write_run(tmp_path / "other", CONFIG).folder
    (other.path / "tracking.json").write_bytes((folder.path / "tracking.json").read_bytes())
    with pytest.raises(DamagedFile, match=r"tracking\.json is not what the run saved"):
        other.tracker_ids()
    assert ["tracking.json" in error.what for error in other.damaged()] == [True]


@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "forged"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.yaml", b"a: [1", "cannot be read as YAML"),
        ("config.yaml", b"just words", "expected settings, one per line"),
        ("config.yaml", b"\xff\xfe", "is not text: byte 1 is not UTF-8"),
        ("config.yaml", b"when: 2001-99-99", "month must be in 1..12"),
        ("config.yaml", b"a: !!python/object:os.system x", "could not determine a constructor"),
        ("config.yaml", b"a: &a [1]\nb: *a", "alias"),
        ("config.yaml", b"[" * 5000, "nested too deeply"),
        ("about.json", b"{", "Expecting property name"),
        ("about.json", b"\xff", "'utf-8' codec can't decode"),
        ("about.json", b"[]", "expected keys and values"),
        ("result.json", b"3", "expected keys and values"),
        ("model.safetensors", b"nothing", "cannot be read"),
        ("model.safetensors", b"\x80\x04N.", "cannot be read"),  # pickle is not even tried
    ],
)
def test_a_damaged_file_is_named(name: str, content: bytes, sentence: str, forged: bool, tmp_path: Path) -> None:
    writer = write_run(tmp_path / "run", CONFIG)
    writer.write_end({"bias": torch.zeros(2)}, {"rounds": 2})
    folder = writer.folder
    readers: dict[str, Callable[[], Any]] = {
        "config.yaml": folder.config,
        "about.json": folder.about,
        "result.json": folder.result,
        "model.safetensors": folder.model,
    }
    if forged:
        rewritten(tmp_path / "run", name, content)
    else:
        (tmp_path / "run" / name).write_bytes(content)
        sentence = r"is not what the run saved \(its checksum differs\).*\. Put the original back"
    with pytest.raises(InputError, match=f"{name} .*{sentence}"):
        readers[name]()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[:-10], "is not what the run saved"),
        (lambda text: text.replace('"rounds": 0', '"rounds": 7'), "is not what the run saved"),
        (lambda text: "[]", "is not what the run saved"),
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


def test_one_method_has_the_folder_and_several_have_one_each(tmp_path: Path) -> None:
    assert [folder.path for folder in folders_for(tmp_path, ["smofi"])] == [tmp_path]
    folders = folders_for(tmp_path, ["smofi", "fedavg"])
    assert [folder.path.name for folder in folders] == ["smofi", "fedavg"]
    for folder in folders:
        write_run(folder.path, CONFIG)
    write_comparison(tmp_path, CONFIG, ["smofi", "fedavg"])
    assert folders_in(tmp_path) == folders
    assert folders_in(tmp_path / "smofi") == [RunFolder(tmp_path / "smofi")]
    assert partition_in(tmp_path) == tmp_path / "smofi" / "partition.safetensors"
    assert partition_in(tmp_path / "smofi") == tmp_path / "smofi" / "partition.safetensors"
    (tmp_path / "fedavg" / "config.yaml").unlink()
    with pytest.raises(DamagedFile, match=r"fedavg is missing, or has no config\.yaml: it is one of the runs"):
        folders_in(tmp_path)


def test_a_run_is_found_by_its_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected the folder of a run, but it has no config\.yaml"):
        folders_in(tmp_path)
    assert partition_in(tmp_path) is None
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"round": 1}) + "\n")
    with pytest.raises(InputError, match=r"it has no config\.yaml"):
        folders_in(tmp_path)
    with pytest.raises(InputError, match="expected the folder of a run, but File name too long"):
        folders_in(tmp_path / ("x" * 300))
