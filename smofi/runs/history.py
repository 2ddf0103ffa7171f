"""The rounds on record: a line of metrics.jsonl for each, appended once and checked when it is read.

metrics.jsonl   the lines up to the last save are checked by the manifest,
metrics.sums    those since then each by a line of this file, which is emptied with every save

A line without a checksum is still being written, and does not count.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from smofi.files import to_json
from smofi.runs.manifest import CHANGED, Checksum, DamagedFile, Manifest, SavedRounds

METRICS, SUMS = "metrics.jsonl", "metrics.sums"
LARGEST, LONGEST_LINE = 4 * 2**30, 2**26
TEXTS, TABLES = ("cut",), ("metrics", "diagnostics")
LISTS = ("selected", "steps", "bytes_up", "bytes_down", "idle", "left_out")
NUMBERS = ("accuracy", "loss", "train_loss", "validation", "seconds", "learning_rate", "virtual_seconds", "virtual_end")

Fields = dict[str, Any]


def read_records(folder: Path, manifest: Manifest) -> list[Fields]:
    """The records of all rounds, each checked; raises DamagedFile where one is not as it was written."""
    return _records(folder / METRICS, read_lines(folder, manifest)[0])


def read_saved_records(folder: Path, manifest: Manifest) -> list[Fields]:
    """The same of the rounds up to the last save, whatever follows."""
    with _opened(folder / METRICS) as file:
        return _records(folder / METRICS, _saved_lines(file, folder / METRICS, manifest))


def read_lines(folder: Path, manifest: Manifest) -> tuple[list[bytes], str]:
    """The lines of all rounds, each checked; and what is wrong with later ones that do not count, if anything is."""
    path = folder / METRICS
    with _opened(path) as file:
        lines = _saved_lines(file, path, manifest)
        before, whole = _read_sums(folder / SUMS, len(lines))
        later = list(islice(_whole_lines(file), len(before) + 2))
    after, still_whole = _read_sums(folder / SUMS, len(lines))  # lines may have been added meanwhile
    sums = max(before, after, key=len)
    for line, sum in zip(later, sums, strict=False):
        if _sum(manifest.run, line) != sum:
            wrong = f"line {len(lines) + 1} does not match its checksum in {SUMS}"
            raise DamagedFile(f"{path} is not what the run saved: {wrong}")
        lines.append(line)
    if len(before) > len(later):
        return lines, f"{path} lacks rounds that were done after the last save, from {len(lines) + 1} on"
    uncounted = len(later) - len(sums)
    if uncounted > 1 or (uncounted == 1 and not (whole and still_whole)):  # the last may still be written
        lacking = f"{folder / SUMS} lacks the checksums of rounds from {len(lines) + 1} on"
        return lines, f"{lacking}: their lines in {METRICS} do not count"
    return lines, ""


def _saved_lines(file: BinaryIO, path: Path, manifest: Manifest) -> list[bytes]:
    """The lines that a manifest lists; what follows in the file is yet to be read."""
    content = file.read(min(LARGEST, max(one.content.size for one in manifest.saved)))
    for saved in manifest.saved:
        if Checksum.of(content[: saved.content.size]) == saved.content:
            file.seek(saved.content.size)
            return content[: saved.content.size].split(b"\n")[:-1]
    last = manifest.saved[-1]
    if len(content) < last.content.size and content.count(b"\n") < last.rounds:
        raise DamagedFile(f"{path} lacks rounds that were saved: expected at least {last.rounds}")
    raise DamagedFile(f"{path} {CHANGED}")


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
            file.truncate(self.bytes)  # `whole` tells that this only ever cuts: a line that was not written whole
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
        sums = self.folder / SUMS
        if not sums.exists() or sums.stat().st_size:
            open(sums, "wb").close()

    def cut(self) -> None:
        """Cut off all that follows in the file, with its checksums; they are of rounds to be done again."""
        path = self.folder / METRICS
        if path.exists() and path.stat().st_size > self.bytes:
            os.truncate(path, self.bytes)
        self.forget_sums()


def _opened(path: Path) -> BinaryIO:
    """The file, or an empty one if there is none; nothing but a regular file is opened."""
    if not os.path.lexists(path):
        return io.BytesIO()
    if not path.is_file():
        raise DamagedFile(f"{path} is not a regular file")
    try:
        return open(path, "rb", buffering=2**20)
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
        yield line[:-1]


def _read_sums(path: Path, saved: int) -> tuple[list[str], bool]:
    """The checksums of the rounds since a save, in their order, and whether nothing else is in the file."""
    sums: list[str] = []
    with _opened(path) as file:
        while line := file.readline(64):
            found = re.fullmatch(rb"(\d{1,11}) ([0-9a-f]{32})\n", line)
            if not found or int(found[1]) != saved + len(sums) + 1:
                return sums, re.fullmatch(rb"\d{1,11}( [0-9a-f]{0,32})?", line) is not None  # the last, being written
            sums.append(found[2].decode())
    return sums, True


def _records(path: Path, lines: Iterable[bytes]) -> list[Fields]:
    return [_record(path, number, line) for number, line in enumerate(lines, start=1)]


def _record(path: Path, number: int, line: bytes) -> Fields:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("round") != number:
        raise DamagedFile(f"{path} cannot be read: line {number} is not the record of round {number}")
    for name, value in record.items():
        if not _of_its_kind(name, value):
            raise DamagedFile(f"{path} cannot be read: {name} in line {number} is {str(value)[:40]!r}")
    return record


def _of_its_kind(name: str, value: Any) -> bool:
    """Whether a field of a record has a value of the right kind; of fields from elsewhere nothing is known."""
    if name in NUMBERS:
        return value is None or type(value) in (int, float)
    if name in LISTS:
        return isinstance(value, list) and set(map(type, value)) <= {int, float}
    if name in TABLES:
        return isinstance(value, dict)
    return name not in TEXTS or isinstance(value, str)


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{to_json(record)}\n".encode()


def _sum(run: str, line: bytes) -> str:
    return hashlib.blake2b(line, key=run.encode()[:64], digest_size=16).hexdigest()
