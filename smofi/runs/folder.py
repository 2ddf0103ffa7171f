"""A run's folder: what belongs to it, the names of its files, and reading them. Nothing is believed that the run did
not save.

Reading takes no lock, so that looking never disturbs the writer: where a file does not match the manifest and the
manifest has changed meanwhile, both are read again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from safetensors import SafetensorError, safe_open

from smofi.errors import InputError
from smofi.files import read_regular, sealed, to_json, unsealed, write_atomically
from smofi.later import np, torch
from smofi.plain_yaml import LARGEST, settings_in

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

# --------------------------------------------------------------------------------------------------------------------
# What belongs to a run: every file that was saved, with its checksum, and which run it is.


MANIFEST, FORMAT, LARGEST_MANIFEST = "manifest.json", "smofi-run-1", 16 * 2**20
AT_ONCE = 2**20
CHANGED = "is not what the run saved (its checksum differs): it is damaged, edited or from another run"


class DamagedFile(InputError):
    """A file of a run that is missing, or not as the run saved it: what is wrong with it, and what to do about it.

    >>> DamagedFile("a.json is missing", "Put it back")
    DamagedFile('a.json is missing. Put it back')
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        super().__init__(f"{what}. {remedy}" if remedy else what)


class UnreadableFile(DamagedFile):
    """A file of a run that the system does not give, perhaps only at this moment."""


@dataclass(frozen=True)
class Checksum:
    """The size and the hash of a file's content, or of its beginning."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Checksum:
        """That of a content.

        >>> Checksum.of(b"")
        Checksum(size=0, sha256='e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
        """
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Checksum:
        """That of a file, however large."""
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while piece := file.read(AT_ONCE):
                digest.update(piece)
                size += len(piece)
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class SavedRounds:
    """The lines of metrics.jsonl that belong to the last save: how many, and their checksum."""

    rounds: int = 0
    content: Checksum = field(default_factory=lambda: Checksum.of(b""))


@dataclass(frozen=True)
class Manifest:
    """The identity of a run; for each of its files by its name below the folder, what it may be; and the rounds that
    were saved, as they may be. A comparison has `runs`, by the names of their folders, in place of rounds."""

    run: str
    files: Mapping[str, Sequence[Checksum]] = field(default_factory=dict)
    saved: Sequence[SavedRounds] = (SavedRounds(),)
    runs: Mapping[str, str] = field(default_factory=dict)

    def check(self, path: Path, name: str, found: Checksum) -> None:
        """Refuse a file that is not what the run saved."""
        if found not in self.files.get(name, ()):
            raise DamagedFile(f"{path} {CHANGED}")

    def encode(self) -> bytes:
        """As JSON that tells by itself whether it was changed."""
        return sealed({"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file; raises DamagedFile if it is none, or not as it was written."""
        content = read_regular(path, LARGEST_MANIFEST, "the manifest of a run")
        try:
            values = unsealed(content)
        except ValueError:
            raise DamagedFile(f"{path} {CHANGED}") from None
        try:
            if values["format"] != FORMAT:
                raise DamagedFile(f"{path} has format {values['format']!r}: expected {FORMAT!r}")
            files = {str(name): [Checksum(**one) for one in sums] for name, sums in values["files"].items()}
            saved = [SavedRounds(int(one["rounds"]), Checksum(**one["content"])) for one in values["saved"]]
            return cls(str(values["run"]), files, saved, {str(name): str(run) for name, run in values["runs"].items()})
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, DamagedFile):
                raise
            raise DamagedFile(f"{path} cannot be read: {error}") from None


# --------------------------------------------------------------------------------------------------------------------
# A run's state in one file: safetensors, with small values as JSON in its header.

CHECKPOINT = "smofi-checkpoint-2"


@dataclass(frozen=True)
class StoredCheckpoint:
    """The state after a round, counted from 1: tensors by name, and small values by name."""

    round: int
    tensors: dict[str, Tensor]
    notes: dict[str, Any]

    def encode(self) -> bytes:
        """As the content of a file."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        about = {"format": CHECKPOINT, "round": self.round, "notes": self.notes}
        return bytes(save(tensors, metadata={"smofi": json.dumps(about)}))


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """The state in a file; raises DamagedFile, naming it, if there is none."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["smofi"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if about["format"] != CHECKPOINT:
            raise DamagedFile(f"{path} has format {about['format']!r}: expected {CHECKPOINT!r}")
        return StoredCheckpoint(int(about["round"]), tensors, dict(about["notes"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path} cannot be read as a checkpoint: {error}") from error


# --------------------------------------------------------------------------------------------------------------------
# The rounds on record: a line of metrics.jsonl for each, appended once and checked when it is read.

METRICS, SUMS = "metrics.jsonl", "metrics.sums"
LARGEST_HISTORY, LONGEST_LINE = 4 * 2**30, 2**26
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
    content = file.read(min(LARGEST_HISTORY, max(one.content.size for one in manifest.saved)))
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


# --------------------------------------------------------------------------------------------------------------------
# The files of one run: their names, and reading them. Nothing is believed that is not what the run saved.

CONFIG, ABOUT, RESULT, MODEL = "config.yaml", "about.json", "result.json", "model.safetensors"
CHECKPOINTS, ROUND, BEST = "checkpoints", "checkpoints/round-{:06d}.safetensors", "checkpoints/best.safetensors"
CURVES, CURVES_OVER_HOURS = "curves.png", "curves-hours.png"
TRACKING, TENSORBOARD = "tracking.json", "tensorboard"
WRITTEN_AGAIN = (MODEL, RESULT)
"""What a run writes again from its last state when it is missing."""

LARGEST_JSON = 64 * 2**20  # about.json has the names of all classes, which may be many

Read = TypeVar("Read")


@dataclass(frozen=True)
class RunFolder:
    """A folder for one run, whether there is anything in it or not.

    >>> RunFolder(Path("runs/a")).config_file.as_posix()
    'runs/a/config.yaml'
    """

    path: Path

    # ------------------------------------------------------------------------------------------------- what there is

    @property
    def config_file(self) -> Path:
        """The resolved configuration. It is written last of all that describes a run."""
        return self.path / CONFIG

    @property
    def model_file(self) -> Path:
        """The final weights, by the model's own names."""
        return self.path / MODEL

    @property
    def clients_file(self) -> Path:
        """Who takes part in a served run; a simulation has none."""
        return self.path / "clients.json"

    @property
    def about_file(self) -> Path:
        """Where the run comes from: versions, command, fingerprints."""
        return self.path / ABOUT

    @property
    def curves_file(self) -> Path:
        """The picture of accuracy over rounds."""
        return self.path / CURVES

    @property
    def curves_over_hours_file(self) -> Path:
        """The picture of accuracy over virtual time."""
        return self.path / CURVES_OVER_HOURS

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / TENSORBOARD

    @property
    def has_run(self) -> bool:
        """Whether a run was described here."""
        return self.config_file.exists()

    @property
    def has_best(self) -> bool:
        """Whether the best round by validation accuracy is kept."""
        return BEST in self.manifest().files

    @property
    def has_model(self) -> bool:
        """Whether the final model was saved."""
        return MODEL in self.manifest().files

    @property
    def last_written(self) -> float:
        """When the latest round was recorded, in seconds since the epoch."""
        return (self.path / METRICS).stat().st_mtime

    def saved_rounds(self) -> list[int]:
        """The rounds whose state was saved and is kept, ascending."""
        return rounds_in(self.manifest())

    # ------------------------------------------------------------------------------------------------------- reading

    def manifest(self) -> Manifest:
        """All that was saved; an empty one where nothing is."""
        path = self.path / MANIFEST
        try:
            path.lstat()
        except OSError:
            if not self.has_run:
                return Manifest("")
            if not self.about_file.exists():
                foreign = f"{self.path} is not a run folder: it has a {CONFIG}, but no {MANIFEST}, which every run has"
                raise DamagedFile(foreign) from None
            missing = f"{path} is missing, and without it no file of the run can be checked"
            raise DamagedFile(missing, self._remedy(MANIFEST)) from None
        try:
            return Manifest.read(path)
        except DamagedFile as error:
            raise DamagedFile(error.what, self._remedy(MANIFEST)) from None

    def config(self) -> dict[str, Any] | None:
        """The settings as they are in the file, None if there is none."""
        content = self._read(CONFIG, LARGEST)
        return None if content is None else settings_in(content, str(self.config_file))

    def about(self) -> dict[str, Any] | None:
        """Where the run comes from, None if that was not recorded."""
        return self._mapping(ABOUT)

    def result(self) -> dict[str, Any] | None:
        """How the run ended, None while it has not."""
        return self._mapping(RESULT)

    def records(self) -> list[dict[str, Any]]:
        """The rounds on record."""
        return self._consistent(METRICS, lambda manifest: read_records(self.path, manifest))

    def ended(self) -> int | None:
        """After how many rounds the run ended whose model is saved, None while it has not."""
        result = self.result()
        rounds = result.get("rounds") if result else None
        if result is not None and (not isinstance(rounds, int) or rounds < 0):
            raise InputError(f"{self.path / RESULT} cannot be used: expected the rounds after which the run ended")
        return rounds

    def saved_records(self) -> list[dict[str, Any]]:
        """Those up to the last save."""
        return self._consistent(METRICS, lambda manifest: read_saved_records(self.path, manifest))

    def model(self) -> dict[str, torch.Tensor]:
        """The final weights, of which `ended` tells the round."""
        from safetensors.torch import load_file

        self.checked(RESULT)
        path = self.checked(MODEL)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def checkpoint(self, round: int) -> StoredCheckpoint:
        """The state after a round; raises DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(ROUND.format(round)))

    def best(self) -> StoredCheckpoint:
        """The state after the best round by validation accuracy; raises DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(BEST))

    def checked(self, name: str) -> Path:
        """A file of the run that is as the run saved it; raises DamagedFile if it is not."""
        path = self.path / name

        def check(manifest: Manifest) -> Path:
            if not path.is_file():
                raise DamagedFile(f"{path} is {'not a regular file' if os.path.lexists(path) else 'missing'}")
            try:
                size = path.stat().st_size
                known = [one for one in manifest.files.get(name, ()) if one.size == size]
                # The hash of a file of another size would take time and tell nothing.
                manifest.check(path, name, Checksum.of_file(path) if known else Checksum(size, ""))
            except OSError as error:
                raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
            return path

        return self._consistent(name, check)

    def damaged(self) -> list[DamagedFile]:
        """What is wrong with each file that is missing, or not as the run saved it; nothing if all are."""
        found: list[DamagedFile] = []
        manifest = self.manifest()
        for name in manifest.files:
            try:
                self.checked(name)
            except DamagedFile as error:
                if name in self.manifest().files:  # it may have been replaced by a newer one meanwhile
                    found.append(error)
        try:
            self.tracker_ids()
        except DamagedFile as error:
            found.append(error)
        try:
            _, remark = self._consistent(METRICS, lambda manifest: read_lines(self.path, manifest))
        except DamagedFile as error:
            found.append(error)
        else:
            if remark and self.manifest() == manifest:  # else there was a save meanwhile
                found.append(DamagedFile(remark, f"smofi run --resume {self.path} does these rounds again"))
        return found

    def tracker_ids(self) -> dict[str, Any]:
        """The trackers' own names for this run, by tracker."""
        path = self.path / TRACKING
        if not path.exists():
            return {}
        try:
            kept = unsealed(read_regular(path, LARGEST, "the trackers' names for the run"))
        except ValueError:
            kept = {}
        if not isinstance(kept, dict) or kept.get("run") != self.manifest().run:
            raise DamagedFile(f"{path} {CHANGED}", "Put the original back, or remove it to begin new records")
        return dict(kept["trackers"])

    def _mapping(self, name: str) -> dict[str, Any] | None:
        """A JSON file of names with values; None if there is none."""
        content = self._read(name, LARGEST_JSON)
        if content is None:
            return None
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path / name} cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(values, dict):
            raise InputError(f"{self.path / name} cannot be read: expected keys and values")
        return values

    def _read(self, name: str, most: int) -> bytes | None:
        """The content of a small file, None if there is none."""
        path = self.path / name

        def read(manifest: Manifest) -> bytes | None:
            if name not in manifest.files and name != CONFIG:
                return None  # it is not the run's: left by a process that was killed, or put there since
            if not os.path.lexists(path):
                if name in manifest.files and name not in WRITTEN_AGAIN and self.has_run:
                    raise DamagedFile(f"{path} is missing")
                return None
            content = read_regular(path, most, "a file of a run")
            manifest.check(path, name, Checksum.of(content))
            return content

        return self._consistent(name, read)

    def _consistent(self, name: str, read: Callable[[Manifest], Read]) -> Read:
        """What `read` makes of a file, given the manifest; again if that has changed meanwhile."""
        while True:
            manifest = self.manifest()
            try:
                return read(manifest)
            except UnreadableFile:
                raise
            except InputError as error:
                if self.manifest() == manifest:
                    what = error.what if isinstance(error, DamagedFile) else str(error)
                    raise DamagedFile(what, self._remedy(name)) from None

    def _remedy(self, name: str) -> str:
        """What to do about a file that is missing or damaged."""
        if name == CONFIG:
            return f"Put the original back; other settings are a new run: smofi run {self.config_file} --output NEW"
        if name in WRITTEN_AGAIN or name == BEST:
            remove = ", or remove it" if (self.path / name).exists() else ""
            then = "does without it" if name == BEST else "writes it again"
            return f"Put the original back{remove}: smofi run --resume {self.path} {then}"
        if name.startswith(f"{CHECKPOINTS}/"):
            return f"Put the original back; smofi run --resume {self.path} goes on from an earlier round if it can"
        return f"Put the original back, or start anew in another folder: smofi run {self.config_file} --output NEW"


def rounds_in(manifest: Manifest) -> list[int]:
    """The rounds whose state a manifest lists, ascending.

    >>> rounds_in(Manifest("a", {ROUND.format(7): [], BEST: []}))
    [7]
    """
    return sorted(round for name in manifest.files if (round := round_of(name)) is not None)


def round_of(name: str) -> int | None:
    """The round whose state has this name, None for another file."""
    found = re.fullmatch(r"checkpoints/round-(\d{6,})\.safetensors", name)
    return int(found[1]) if found else None


# --------------------------------------------------------------------------------------------------------------------
# The partition file of a run folder: which client has which sample, and the fingerprints of both sides of it.

PARTITION, TENSOR, METADATA = "partition.safetensors", "owner", "smofi"
OWNERS, LABELS = "owner_sha256", "labels_sha256"


@dataclass(frozen=True, eq=False)
class StoredPartition:
    """The content of a partition file: the number of each sample's client, and the fingerprint of the labels that it
    was made for, if that is known. `path` is the file itself."""

    path: Path
    owners: npt.NDArray[np.int32]
    labels: str | None


def read_partition_file(path: Path) -> StoredPartition:
    """The partition in a run folder, or in a file of that format; in a run folder it is as the run saved it."""
    path = _find(path)
    if (run := RunFolder(path.parent)).has_run and path.name == PARTITION:
        run.checked(PARTITION)
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            if names != [TENSOR]:
                raise InputError(f"{path} is no partition: expected one tensor called {TENSOR}, but it has {names}")
            tensor = file.get_slice(TENSOR)
            kind, shape = tensor.get_dtype(), tensor.get_shape()
            if kind != "I32" or len(shape) != 1:
                raise InputError(f"{path} is no partition: expected int32 of shape [samples], not {kind} of {shape}")
            owners, about = file.get_tensor(TENSOR), _known((file.metadata() or {}).get(METADATA, "{}"))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read as a partition: {error}") from None
    if about.get(OWNERS) not in (None, partition_hash(owners)):
        raise InputError(f"{path} is damaged: it is not the partition that was written (its checksum differs)")
    return StoredPartition(path, owners, about.get(LABELS))


def write_partition_file(path: Path, owners: npt.NDArray[Any]) -> None:
    """Write the client of each sample."""
    write_atomically(path, encode_partition(owners))


def encode_partition(owners: npt.NDArray[Any], labels: npt.NDArray[Any] | None = None) -> bytes:
    """The content of a partition file; with the labels, it also knows which data it is for."""
    from safetensors.numpy import save

    known = {OWNERS: partition_hash(owners), LABELS: None if labels is None else labels_hash(labels)}
    about = {METADATA: json.dumps(known)}  # a single one: several are written in any order
    return bytes(save({TENSOR: np.ascontiguousarray(owners, dtype="<i4")}, metadata=about))


def partition_hash(owners: npt.NDArray[Any]) -> str:
    """The fingerprint of which client has which sample.

    >>> partition_hash(np.zeros(3, dtype=np.int32))[:8]
    '15ec7bf0'
    """
    return hashlib.sha256(np.ascontiguousarray(owners, dtype="<i4").tobytes()).hexdigest()


def labels_hash(labels: npt.NDArray[Any]) -> str:
    """The fingerprint of the data that a partition divides.

    >>> labels_hash(np.array([0, 1]))[:8]
    '9d34149f'
    """
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def _known(text: str) -> dict[str, Any]:
    """What a partition file says of itself."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        known = None
    return known if isinstance(known, dict) else {OWNERS: ""}  # which is no checksum


def _find(path: Path) -> Path:
    """The partition file itself; nothing but a regular file is opened."""
    try:
        found = path / PARTITION if path.is_dir() else path
        if found.is_file():
            return found
        depths = ("*", "*/*") if path.is_dir() else ()  # of several methods, of several seeds
        inside = next((one for depth in depths for one in sorted(path.glob(f"{depth}/{PARTITION}"))), None)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if inside:
        raise InputError(f"{path} contains several runs: expected one of them, such as {inside.parent}")
    if path.is_dir():
        raise InputError(f"{path} has no {PARTITION}: expected a run folder")
    missing = "is no regular file" if path.exists() else "does not exist"
    raise InputError(f"{path} {missing}: expected a run folder or its {PARTITION}")
