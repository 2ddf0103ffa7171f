from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from smofi.data.partitions import Saved, parse, read_partition, write_partition
from smofi.errors import InputError
from smofi.runs import RunFolder, RunWriter

OWNER = np.array([1, -1, 0, 2, -2, 0], dtype=np.int32)


def test_a_run_folder_and_its_file_are_read(tmp_path: Path) -> None:
    labels = np.arange(6)
    (tmp_path / "run").mkdir()
    RunWriter(RunFolder(tmp_path / "run")).describe("rounds: 1\n", {}, OWNER, labels)
    for path in (tmp_path / "run", tmp_path / "run" / "partition.safetensors"):
        assert read_partition(path).tolist() == OWNER.tolist()
        assert read_partition(str(path)).dtype == np.int32
    known = parse(f"file:{tmp_path / 'run'}")
    assert isinstance(known, Saved)
    assert known.clients_of(labels, 3).tolist() == OWNER.tolist()
    with pytest.raises(InputError, match="it was made for data with other labels"):
        known.clients_of(labels[::-1], 3)
    write_partition(tmp_path / "again", OWNER)
    again = parse(f"file:{tmp_path / 'again'}")
    assert isinstance(again, Saved)
    assert again.clients_of(labels[::-1], 3).tolist() == OWNER.tolist()  # it knows of no labels


@pytest.mark.parametrize("with_run", [True, False])
def test_a_changed_owner_is_noticed_in_a_run_folder_and_by_itself(with_run: bool, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunWriter(RunFolder(tmp_path / "run")).describe("rounds: 1\n", {}, OWNER, np.arange(6))
    path = tmp_path / "run" / "partition.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(OWNER.tobytes(), OWNER[::-1].tobytes()))
    if not with_run:
        path = path.rename(tmp_path / "partition.safetensors")
    for place in (path, path.parent):
        with pytest.raises(InputError, match=r"partition\.safetensors is (damaged|not what the run saved)"):
            read_partition(place)
    path.write_bytes(content)
    assert read_partition(path).tolist() == OWNER.tolist()


@given(st.lists(st.integers(-2, 5), min_size=1).filter(lambda owners: max(owners) >= 0))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, owners: list[int]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    clients = sorted({owner for owner in owners if owner >= 0})
    numbered = np.array([clients.index(owner) if owner >= 0 else owner for owner in owners])
    write_partition(path, numbered)
    assert read_partition(path).tolist() == numbered.tolist()
    assert [one.name for one in path.parent.glob(".*.part")] == []


@pytest.mark.parametrize("path", ["runs/a", "runs/a b/partition.safetensors", "x:y", "../dirichlet(0.2)"])
def test_its_text_is_its_path(path: str) -> None:
    assert parse(f"file:{path}") == Saved(path) == parse(str(Saved(path)))
    assert str(parse(f" file:{path}")) == f"file:{path}"


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"owners": OWNER}, r"expected one tensor called owner, but it has \['owners'\]"),
        ({"owner": OWNER, "more": OWNER}, "expected one tensor called owner"),
        ({"owner": OWNER.astype(np.int64)}, "expected int32 of shape .samples., not I64"),
        ({"owner": OWNER.astype(np.float32)}, "not F32"),
        ({"owner": OWNER.reshape(2, 3)}, r"not I32 of \[2, 3\]"),
        ({"owner": OWNER[:0]}, "no sample has a client"),
        ({"owner": np.full(3, -1, dtype=np.int32)}, "no sample has a client"),
        ({"owner": np.array([0, -3], dtype=np.int32)}, "a sample has client -3"),
        ({"owner": np.array([0, 1, 3], dtype=np.int32)}, "client 2 has no sample although there is a client 3"),
        ({"owner": np.array([2**31 - 1], dtype=np.int32)}, "client 0 has no sample although there is a client 2147483"),
    ],
)
def test_a_file_that_is_no_partition_is_refused(tensors: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "partition.safetensors"
    save_file(tensors, path)
    with pytest.raises(InputError, match=rf"partition\.safetensors is no partition: .*{sentence}"):
        read_partition(tmp_path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    write_partition(path, OWNER)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut cannot be read as a partition"):
            read_partition(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="cannot be read as a partition"):
        read_partition(path)


@pytest.mark.parametrize(
    "header",
    [
        {"owner": {"dtype": "I32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"owner": {"dtype": "I32", "shape": [2**62], "data_offsets": [0, 8]}},
        {"owner": {"dtype": "I32", "shape": [2], "data_offsets": [8, 16]}},
        {"owner": {"dtype": "I33", "shape": [2], "data_offsets": [0, 8]}},
        {"owner": [1, 2]},
        [],
    ],
)
def test_a_header_that_promises_more_than_the_file_has_is_refused(header: Any, tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "lies").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(InputError, match="lies cannot be read as a partition"):
        read_partition(tmp_path / "lies")
    (tmp_path / "lies").write_bytes(struct.pack("<Q", 2**60) + text)
    with pytest.raises(InputError, match="lies cannot be read as a partition"):
        read_partition(tmp_path / "lies")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing does not exist: expected a run folder or its partition"):
        read_partition(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"has no partition\.safetensors: expected a run folder"):
        read_partition(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is no regular file"):
        read_partition(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot be read"):
        read_partition(tmp_path / ("x" * 300))
    (tmp_path / "smofi").mkdir()
    write_partition(tmp_path / "smofi" / "partition.safetensors", OWNER)
    with pytest.raises(InputError, match=r"contains several runs: expected one of them, such as .*smofi$"):
        read_partition(tmp_path)


@pytest.mark.parametrize(
    ("owners", "sentence"),
    [
        (np.array([0.0]), "whole numbers, one per sample"),
        (np.array([[0]]), "whole numbers, one per sample"),
        (np.array([0, 2]), "client 1 has no sample"),
        (np.array([0, -3]), "client -3"),
    ],
)
def test_what_could_not_be_read_is_not_written(owners: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        write_partition(tmp_path / "file", owners)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="nowhere/file cannot be written: No such file"):
        write_partition(tmp_path / "nowhere" / "file", OWNER)
