"""The files of a run, read and written; whatever is damaged is named in words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smofi.errors import InputError
from smofi.runs import RunFolder, StoredCheckpoint, folders_below, folders_for, folders_in, partition_in

OWNERS, LABELS = np.array([0, 1, 0], dtype=np.int32), np.array([4, 5, 6])


def described(path: Path, config: str = "rounds: 2\n") -> RunFolder:
    path.mkdir(parents=True)
    folder = RunFolder(path)
    folder.describe(config, {"seed": 3}, OWNERS, LABELS)
    return folder


def state(rounds: int) -> StoredCheckpoint:
    return StoredCheckpoint({"weights": torch.ones(2)}, [{"round": n + 1} for n in range(rounds)], {})


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.has_run
    assert not folder.has_rounds
    assert not folder.has_best
    assert (folder.config(), folder.about(), folder.result()) == (None, None, None)
    assert (folder.records(), folder.last_record(), folder.saved_rounds(), folder.tracker_ids()) == ([], {}, [], {})


def test_what_describes_a_run_is_read_back(tmp_path: Path) -> None:
    folder = described(tmp_path / "run")
    about = folder.about()
    assert folder.config() == {"rounds": 2}
    assert about is not None
    assert about["seed"] == 3
    assert len(about["partition_sha256"]) == 64
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "about.json",
        "checkpoints",
        "config.yaml",
        "partition.safetensors",
    ]


def test_a_folder_holds_a_run_only_when_all_of_its_description_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        assert not RunFolder(tmp_path / "run").has_run
        replace(source, target)
        written.append(target.name)

    monkeypatch.setattr(os, "replace", watched)
    described(tmp_path / "run")
    assert written[-1] == "config.yaml"
    assert len(written) == 3


def test_rounds_are_appended_and_one_still_being_written_does_not_count(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append_record({"round": 1, "loss": float("nan")})
    folder.append_record({"round": 2})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"round": 3')
    assert folder.records() == [{"round": 1, "loss": None}, {"round": 2}]
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be read: its last line is damaged"):
        folder.last_record()
    folder.write_records([{"round": 7}])
    assert folder.records() == [{"round": 7}]
    assert folder.last_record() == {"round": 7}


def test_the_newest_checkpoints_are_kept_and_a_damaged_one_is_set_aside(tmp_path: Path) -> None:
    folder = described(tmp_path / "run")
    for rounds in (9, 10, 11):
        folder.save_checkpoint(state(rounds), keep=2)
    folder.save_best(state(4))
    assert folder.saved_rounds() == [10, 11]
    assert len(folder.checkpoint(11).history) == 11
    assert len(folder.best().history) == 4
    folder.set_aside(11)
    assert folder.saved_rounds() == [10]
    assert (folder.path / "checkpoints" / "round-000011.damaged").exists()


def test_an_end_is_written_read_and_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_end({"layer.bias": torch.arange(3.0, requires_grad=True)}, {"rounds": 2, "stopped": None})
    assert folder.result() == {"rounds": 2, "stopped": None}
    assert folder.model()["layer.bias"].tolist() == [0.0, 1.0, 2.0]
    folder.remove_end()
    folder.remove_end()
    assert list(tmp_path.iterdir()) == []


def test_trackers_have_names_of_their_own_for_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_tracker_id("wandb", "a")
    folder.write_tracker_id("mlflow", "b")
    folder.write_tracker_id("wandb", "c")
    assert folder.tracker_ids() == {"wandb": "c", "mlflow": "b"}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.yaml", b"a: [1", "while parsing a flow sequence"),
        ("config.yaml", b"just words", "expected keys and values"),
        ("config.yaml", b"\xff\xfe", "'utf-8' codec can't decode"),
        ("config.yaml", b"when: 2001-99-99", "month must be in 1..12"),
        ("config.yaml", b"a: !!python/object:os.system x", "could not determine a constructor"),
        ("config.yaml", b"[" * 5000, "recursion"),
        ("about.json", b"{", "Expecting property name"),
        ("about.json", b"[]", "expected keys and values"),
        ("result.json", b"3", "expected keys and values"),
        ("tracking.json", b'["wandb"]', "expected keys and values"),
        ("metrics.jsonl", b'{"round": 1}\nnonsense\n{"round": 3}\n', "line 2 is not the record of a round"),
        ("metrics.jsonl", b"3\n", "line 1 is not the record of a round"),
        ("metrics.jsonl", b"\xff\n", "'utf-8' codec can't decode"),
        ("model.safetensors", b"nothing", "Error while deserializing header"),
        ("model.safetensors", b"\x80\x04N.", "Error while deserializing header"),  # pickle is not even tried
    ],
)
def test_a_damaged_file_is_named(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    readers: dict[str, Callable[[], Any]] = {
        "config.yaml": folder.config,
        "about.json": folder.about,
        "result.json": folder.result,
        "tracking.json": folder.tracker_ids,
        "metrics.jsonl": folder.records,
        "model.safetensors": folder.model,
    }
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name} cannot be read: .*{sentence}"):
        readers[name]()


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    (tmp_path / "metrics.jsonl").mkdir()
    for read in (RunFolder(tmp_path).config, RunFolder(tmp_path).records):
        with pytest.raises(InputError, match=r"cannot be read: .*Is a directory"):
            read()


def test_one_method_has_the_folder_and_several_have_one_each(tmp_path: Path) -> None:
    assert [folder.path for folder in folders_for(tmp_path, ["smofi"])] == [tmp_path]
    folders = folders_for(tmp_path, ["smofi", "fedavg"])
    assert [folder.path.name for folder in folders] == ["smofi", "fedavg"]
    for folder in folders:
        described(folder.path)
    assert [folder.path.name for folder in folders_below(tmp_path)] == ["fedavg", "smofi"]
    assert folders_in(tmp_path) == folders_below(tmp_path)
    assert folders_in(tmp_path / "smofi") == [RunFolder(tmp_path / "smofi")]
    assert partition_in(tmp_path) == tmp_path / "fedavg" / "partition.safetensors"
    assert partition_in(tmp_path / "smofi") == tmp_path / "smofi" / "partition.safetensors"


def test_a_run_is_found_by_its_rounds_or_by_its_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has neither a config\.yaml nor a metrics\.jsonl"):
        folders_in(tmp_path)
    assert partition_in(tmp_path) is None
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"round": 1}) + "\n")
    assert folders_in(tmp_path) == [RunFolder(tmp_path)]
