"""A checkpoint comes back as it was written, or is called damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from smofi.errors import SmofiError
from smofi.runs import DamagedCheckpoint, StoredCheckpoint, read_checkpoint, write_checkpoint

STATE = StoredCheckpoint(
    {"weights": torch.tensor([1.0, -0.0, float("inf")]), "memory": torch.zeros(0, 3), "counts": torch.tensor([7])},
    [{"round": 1, "loss": 0.1}, {"round": 2, "loss": None, "selected": [3, 1]}],
    {"warned": False, "began": 2.5},
)


def test_it_round_trips_exactly(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "state", STATE)
    again = read_checkpoint(tmp_path / "state")
    assert (again.history, again.notes) == (STATE.history, STATE.notes)
    assert list(again.tensors) == sorted(STATE.tensors)
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in STATE.tensors.items())
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_any_changed_byte_of_the_content_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_checkpoint(path, STATE)
    whole = path.read_bytes()
    content = 8 + int.from_bytes(whole[:8], "little")  # behind the header
    for position in range(content, len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(DamagedCheckpoint, match=r"state is damaged: .* is not what was written"):
            read_checkpoint(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_checkpoint(path, STATE)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedCheckpoint, match="state cannot be read as a checkpoint"):
            read_checkpoint(path)


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({}, "cannot be read as a checkpoint: 'smofi'"),
        ({"smofi": "{"}, "cannot be read as a checkpoint"),
        ({"smofi": "[]"}, "cannot be read as a checkpoint"),
        (
            {"smofi": '{"format": "smofi-checkpoint-9"}'},
            "has format 'smofi-checkpoint-9': expected 'smofi-check",
        ),
    ],
)
def test_other_files_are_no_checkpoints(metadata: dict[str, str], sentence: str, tmp_path: Path) -> None:
    save_file({"weights": torch.zeros(2)}, tmp_path / "other", metadata=metadata)
    with pytest.raises(DamagedCheckpoint, match=sentence):
        read_checkpoint(tmp_path / "other")


def test_one_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedCheckpoint, match=r"absent\.safetensors cannot be read as a checkpoint"):
        read_checkpoint(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("history", [{}, [1], "words"])
def test_a_history_is_a_list_of_records(history: Any, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "state", StoredCheckpoint({}, history, {}))
    with pytest.raises(SmofiError, match="its history is not a list of records"):
        read_checkpoint(tmp_path / "state")
