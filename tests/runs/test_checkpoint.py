"""A checkpoint comes back as it was written, or is called damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from smofi.runs import DamagedFile, StoredCheckpoint, read_checkpoint

STATE = StoredCheckpoint(
    2,
    {"weights": torch.tensor([1.0, -0.0, float("inf")]), "memory": torch.zeros(0, 3), "counts": torch.tensor([7])},
    {"warned": False, "began": 2.5},
)


def test_it_round_trips_exactly(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(STATE.encode())
    again = read_checkpoint(tmp_path / "state")
    assert (again.round, again.notes) == (2, STATE.notes)
    assert list(again.tensors) == sorted(STATE.tensors)
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in STATE.tensors.items())


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = STATE.encode()
    for length in range(0, len(whole), 7):
        (tmp_path / "state").write_bytes(whole[:length])
        with pytest.raises(DamagedFile, match="state cannot be read as a checkpoint"):
            read_checkpoint(tmp_path / "state")


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({}, "cannot be read as a checkpoint: 'smofi'"),
        ({"smofi": "{"}, "cannot be read as a checkpoint"),
        ({"smofi": "[]"}, "cannot be read as a checkpoint"),
        ({"smofi": "[" * 100_000}, "cannot be read as a checkpoint"),
        (
            {"smofi": '{"format": "smofi-checkpoint-9"}'},
            "has format 'smofi-checkpoint-9': expected 'smofi-check",
        ),
    ],
)
def test_other_files_are_no_checkpoints(metadata: dict[str, str], sentence: str, tmp_path: Path) -> None:
    save_file({"weights": torch.zeros(2)}, tmp_path / "other", metadata=metadata)
    with pytest.raises(DamagedFile, match=sentence):
        read_checkpoint(tmp_path / "other")


def test_one_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"absent\.safetensors cannot be read as a checkpoint"):
        read_checkpoint(tmp_path / "absent.safetensors")
