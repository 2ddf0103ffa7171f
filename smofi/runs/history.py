"""The rounds on record: a line of metrics.jsonl for each, appended once and checked when it is read.

metrics.jsonl   the lines up to the last save are checked by the manifest,
metrics.sums    those since then each by a line of this file, which is emptied with every save

A line without a checksum is still being written, and does not count.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from smofi.files import read_regular, to_json
from smofi.runs.manifest import CHANGED, Checksum, DamagedFile, Manifest, SavedRounds

METRICS, SUMS = "metrics.jsonl", "metrics.sums"
LARGEST = 4 * 2**30

Fields = dict[str, Any]


def read_records(folder: Path, manifest: Manifest) -> list[Fields]:
    """The records of all rounds, each checked; raises DamagedFile where one is not as it was written."""
    path = folder / METRICS
    content, saved = _saved(path, manifest)
    lines = content.split(b"\n")[:-1]
    sums = _read_sums(folder / SUMS)
    for number, line in enumerate(lines[saved.rounds :], start=saved.rounds + 1):
        if number not in sums:
            lines = lines[: number - 1]
            break
        if _sum(manifest.run, line) not in sums[number]:
            raise DamagedFile(f"{path} is not as the run saved it: line {number} is damaged, changed or another run's")
    return [_record(path, number, line) for number, line in enumerate(lines, start=1)]


def read_saved_records(folder: Path, manifest: Manifest) -> list[Fields]:
    """The same of the rounds up to the last save, whatever follows."""
    path = folder / METRICS
    content, saved = _saved(path, manifest)
    lines = content.split(b"\n")[: saved.rounds]
    return [_record(path, number, line) for number, line in enumerate(lines, start=1)]


def _saved(path: Path, manifest: Manifest) -> tuple[bytes, SavedRounds]:
    """The whole content of the file, and what a manifest lists of it."""
    content = _content(path)
    saved = next((one for one in manifest.saved if Checksum.of(content[: one.content.size]) == one.content), None)
    if saved is None:
        rounds = manifest.saved[-1].rounds
        if content.count(b"\n") < rounds:
            raise DamagedFile(f"{path} lacks rounds that were saved: expected at least {rounds}")
        raise DamagedFile(f"{path} {CHANGED}")
    return content, saved


class HistoryFile:
    """Writes metrics.jsonl: each round once. A line that could not be written whole is cut off by the next one."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder, self.run = folder, run
        self.rounds = self.bytes = 0
        self.digest = hashlib.sha256()

    @property
    def saved(self) -> SavedRounds:
        """All that has been written, as a manifest lists it."""
        return SavedRounds(self.rounds, Checksum(self.bytes, self.digest.hexdigest()))

    def encode(self, records: Iterable[Mapping[str, Any]]) -> bytes:
        """The content of a file of all rounds, from which `append` goes on."""
        content = b"".join(map(_line, records))
        self.rounds, self.bytes, self.digest = content.count(b"\n"), len(content), hashlib.sha256(content)
        return content

    def append(self, record: Mapping[str, Any]) -> None:
        """Add the record of one more round, flushed to the disk."""
        line = _line(record)
        with open(self.folder / METRICS, "ab") as file:
            file.truncate(self.bytes)  # `whole` tells that this only ever cuts
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.rounds, self.bytes = self.rounds + 1, self.bytes + len(line)
        self.digest.update(line)
        with open(self.folder / SUMS, "ab") as file:
            file.write(f"{self.rounds} {_sum(self.run, line[:-1])}\n".encode())

    @property
    def whole(self) -> bool:
        """Whether all that was written is still there."""
        try:
            return (self.folder / METRICS).stat().st_size >= self.bytes
        except FileNotFoundError:
            return not self.bytes

    def forget_sums(self) -> None:
        """Empty the checksums of single lines, when a manifest has that of all."""
        open(self.folder / SUMS, "wb").close()


def _content(path: Path) -> bytes:
    try:
        path.lstat()
    except OSError:
        return b""
    return read_regular(path, LARGEST, "the rounds of a run")


def _read_sums(path: Path) -> dict[int, set[str]]:
    """What each line may have as its checksum: a round that was done again has two."""
    sums: dict[int, set[str]] = {}
    for line in _content(path).split(b"\n")[:-1]:
        number, _, value = line.decode("ascii", "replace").partition(" ")
        if number.isdecimal() and len(number) < 12:
            sums.setdefault(int(number), set()).add(value)
    return sums


def _record(path: Path, number: int, line: bytes) -> Fields:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("round") != number:
        raise DamagedFile(f"{path} cannot be read: line {number} is not the record of round {number}")
    return record


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{to_json(record)}\n".encode()


def _sum(run: str, line: bytes) -> str:
    return hashlib.blake2b(line, key=run.encode()[:64], digest_size=16).hexdigest()
