"""Rounds since the last save: those that do not count are told, but for one that is being written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from smofi.runs import RunWriter, StoredCheckpoint
from support.run_folder import going_on, write_run


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    """Of a run with two rounds saved and three after that."""
    writer = write_run(tmp_path / "run", "data: digits", [{"round": 1}, {"round": 2}])
    writer.save(StoredCheckpoint(2, {}, {}), keep=2)
    for number in (3, 4, 5):
        writer.history.append({"round": number})
    return writer


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def changed(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes(b"".join(change(lines(run / name)))) and None


@pytest.mark.parametrize(
    ("damage", "rounds", "told"),
    [
        (changed("metrics.jsonl", lambda all: all[:4]), 4, "metrics.jsonl lacks rounds that were done after the last"),
        (changed("metrics.jsonl", lambda all: all[:2]), 2, "metrics.jsonl lacks rounds that were done after the last"),
        (
            lambda run: (run / "metrics.sums").unlink(),
            2,
            "metrics.sums lacks the checksums of rounds from 3 on: their",
        ),
        (
            changed("metrics.sums", lambda all: all[:1]),
            3,
            "metrics.sums lacks the checksums of rounds from 4 on: their",
        ),
        (changed("metrics.sums", lambda all: [*all[:2], b"4" + all[2][1:]]), 4, "the checksums of rounds from 5 on"),
        (changed("metrics.sums", lambda all: [*all[:2], bytes(34)]), 4, "the checksums of rounds from 5 on"),
        (changed("metrics.sums", lambda all: [b"\xff" * 10**6]), 2, "the checksums of rounds from 3 on"),
        # as if it had been killed while it recorded round 5
        (changed("metrics.sums", lambda all: all[:2]), 4, ""),
        (changed("metrics.sums", lambda all: [*all[:2], all[2][:9]]), 4, ""),
        (changed("metrics.jsonl", lambda all: [*all, b"{"]), 5, ""),
    ],
)
def test_what_does_not_count_is_told(damage: Callable[[Path], None], rounds: int, told: str, writer: RunWriter) -> None:
    folder = writer.folder
    damage(folder.path)
    assert [record["round"] for record in folder.records()] == list(range(1, rounds + 1))
    assert [record["round"] for record in folder.saved_records()] == [1, 2]
    found = [str(error) for error in folder.damaged()]
    assert len(found) == bool(told)
    assert all(
        told in error and f"smofi run --resume {folder.path} does these rounds again" in error for error in found
    )


def test_a_round_that_does_not_go_with_its_checksum_names_both_files(writer: RunWriter) -> None:
    def other(line: bytes) -> bytes:
        return line[:5] + (b"e" if line[5:6] != b"e" else b"d") + line[6:]

    changed("metrics.sums", lambda all: [all[0], other(all[1]), all[2]])(writer.path)
    (error,) = writer.folder.damaged()
    assert (
        f"{writer.path / 'metrics.jsonl'} is not what the run saved: line 4 does not match its checksum in"
        in error.what
    )
    assert "metrics.sums" in error.what


def test_rounds_to_be_done_again_are_cut_off_with_their_checksums(writer: RunWriter) -> None:
    again = going_on(writer.path, saved_only=True)
    assert [record["round"] for record in again.folder.records()] == [1, 2]
    assert (lines(writer.path / "metrics.jsonl"), lines(writer.path / "metrics.sums")) == (
        [b'{"round": 1}\n', b'{"round": 2}\n'],
        [],
    )
    again.history.append({"round": 3})
    assert again.folder.damaged() == []
    assert len(again.folder.records()) == 3


def test_a_large_number_of_zeros_is_no_round(writer: RunWriter) -> None:
    with open(writer.path / "metrics.jsonl", "r+b") as file:
        file.truncate(2**34)
    assert len(writer.folder.records()) == 5
