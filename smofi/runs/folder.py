"""A run's folder: its files, their checksums, and reading them. Nothing is believed that the run did not save.

`manifest.json` names the run, lists each of its files with a checksum, and says how many rounds are on record. It is
replaced in one go, after what it lists is written. Reading takes no lock, so that looking never disturbs the writer:
where a file does not match and the manifest has changed meanwhile, both are read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError, safe_open

from smofi.errors import InputError
from smofi.files import read_regular, sealed, unsealed, write_atomically
from smofi.later import np, torch
from smofi.plain_yaml import LARGEST, settings_in

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

# --------------------------------------------------------------------------------------------------------------------
# The manifest: which run this is, and the checksum of every file that was saved.

MANIFEST, FORMAT, LARGEST_MANIFEST = "manifest.json", "smofi-run-1", 16 * 2**20
AT_ONCE = 2**20
CHANGED = "is not what the run saved (its checksum differs): it is damaged, edited or from another run"


class DamagedFile(InputError):
    """Refuse a file of a run that is missing, or not as the run saved it: what is wrong, and what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        super().__init__(f"{what}. {remedy}" if remedy else what)


class UnreadableFile(DamagedFile):
    """Refuse a file of a run that the system does not give, perhaps only at this moment."""


@dataclass(frozen=True)
class Checksum:
    """The size and the hash of a file's content, or of its beginning."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Checksum:
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Checksum:
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while piece := file.read(AT_ONCE):
                digest.update(piece)
                size += len(piece)
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class SavedRounds:
    """The lines of metrics.jsonl that count: how many, and their checksum."""

    rounds: int = 0
    content: Checksum = field(default_factory=lambda: Checksum.of(b""))


@dataclass(frozen=True)
class Manifest:
    """The identity of a run; for each of its files by its name below the folder, what it may be; and the rounds on
    record, as they may be. While a file is replaced, it may be the old or the new one. A comparison has `runs`, by the
    names of their folders, in place of rounds."""

    run: str
    files: Mapping[str, Sequence[Checksum]] = field(default_factory=dict)
    saved: Sequence[SavedRounds] = (SavedRounds(),)
    runs: Mapping[str, str] = field(default_factory=dict)

    @property
    def rounds(self) -> list[int]:
        """The rounds whose state is listed, ascending."""
        return sorted(round for name in self.files if (round := round_of(name)) is not None)

    def encode(self) -> bytes:
        """Return JSON that tells by itself whether it was changed."""
        return sealed({"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest; raise DamagedFile if it is not as it was written."""
        try:
            values = unsealed(read_regular(path, LARGEST_MANIFEST, "the manifest of a run"))
            if values["format"] != FORMAT:
                raise DamagedFile(f"{path} has format {values['format']!r}: expected {FORMAT!r}")
            files = {str(name): [Checksum(**one) for one in sums] for name, sums in values["files"].items()}
            saved = [SavedRounds(int(one["rounds"]), Checksum(**one["content"])) for one in values["saved"]]
            return cls(str(values["run"]), files, saved, {str(name): str(run) for name, run in values["runs"].items()})
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise DamagedFile(f"{path} {CHANGED}") from None


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
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        about = {"format": CHECKPOINT, "round": self.round, "notes": self.notes}
        return bytes(save(tensors, metadata={"smofi": json.dumps(about)}))


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read the state in a file; raise DamagedFile, naming it, if there is none."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["smofi"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if about["format"] != CHECKPOINT:
            raise DamagedFile(f"{path} has format {about['format']!r}: expected {CHECKPOINT!r}")
        return StoredCheckpoint(int(about["round"]), tensors, dict(about["notes"]))
    except DamagedFile:
        raise
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} cannot be read as a checkpoint: {error}") from error


# --------------------------------------------------------------------------------------------------------------------
# The rounds on record: a line of metrics.jsonl each. What follows those that the manifest lists does not count.

METRICS, LARGEST_HISTORY = "metrics.jsonl", 4 * 2**30
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("accuracy", "loss", "train_loss", "validation", "seconds"), (int, float, type(None))),
    **dict.fromkeys(("learning_rate", "virtual_seconds", "virtual_end"), (int, float, type(None))),
    **dict.fromkeys(("selected", "steps", "bytes_up", "bytes_down", "idle", "left_out"), (list,)),
    **dict.fromkeys(("metrics", "diagnostics"), (dict,)),
    "cut": (str,),
}
"""The types that a field of a record may have; of fields from elsewhere nothing is known."""

Fields = dict[str, Any]


def read_records(folder: Path, manifest: Manifest) -> list[Fields]:
    """Read the records of all rounds; raise DamagedFile where they are not as they were written."""
    path = folder / METRICS
    if os.path.lexists(path) and not path.is_file():
        raise DamagedFile(f"{path} is not a regular file")
    most = min(LARGEST_HISTORY, max([0, *(one.content.size for one in manifest.saved)]))
    try:
        with open(path, "rb") as file:
            content = file.read(most)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    for saved in manifest.saved:
        if Checksum.of(content[: saved.content.size]) == saved.content:
            lines = content[: saved.content.size].split(b"\n")[:-1]
            return [_record(path, number, line) for number, line in enumerate(lines, start=1)]
    if len(content) < most and content.count(b"\n") < (rounds := manifest.saved[-1].rounds):
        raise DamagedFile(f"{path} lacks rounds that were saved: expected at least {rounds}")
    raise DamagedFile(f"{path} {CHANGED}")


def _record(path: Path, number: int, line: bytes) -> Fields:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("round") != number:
        raise DamagedFile(f"{path} cannot be read: line {number} is not the record of round {number}")
    for name, value in record.items():
        numbers = not isinstance(value, list) or {type(one) for one in value} <= {int, float}
        if name in KINDS and not (type(value) in KINDS[name] and numbers):
            raise DamagedFile(f"{path} cannot be read: {name} in line {number} is {str(value)[:40]!r}")
    return record


# --------------------------------------------------------------------------------------------------------------------
# The files of one run: their names, and reading them.

CONFIG, ABOUT, RESULT, MODEL = "config.yaml", "about.json", "result.json", "model.safetensors"
CHECKPOINTS, ROUND, BEST = "checkpoints", "checkpoints/round-{:06d}.safetensors", "checkpoints/best.safetensors"
TRACKING = "tracking.json"
WRITTEN_AGAIN = (MODEL, RESULT)
"""Files that a run writes again from its last state when they are missing."""

LARGEST_JSON = 64 * 2**20  # about.json has the names of all classes, which may be many

Read = TypeVar("Read")


def round_of(name: str) -> int | None:
    found = re.fullmatch(r"checkpoints/round-(\d{6,})\.safetensors", name)
    return int(found[1]) if found else None


@dataclass
class RunFolder:
    """A folder for one run, whether there is anything in it or not."""

    path: Path

    def __post_init__(self) -> None:
        self.config_file = self.path / CONFIG  # written last of all that describes a run
        self.about_file = self.path / ABOUT  # where the run comes from: versions, command, fingerprints
        self.clients_file = self.path / "clients.json"  # who takes part in a served run
        self.model_file = self.path / MODEL  # the final weights, by the model's own names
        self.curves_file = self.path / "curves.png"
        self.curves_over_hours_file = self.path / "curves-hours.png"
        self.tensorboard = self.path / "tensorboard"

    @property
    def has_run(self) -> bool:
        return self.config_file.exists()

    @property
    def has_best(self) -> bool:
        return BEST in self.manifest().files

    @property
    def has_model(self) -> bool:
        return MODEL in self.manifest().files

    @property
    def last_written(self) -> float:
        """Return when the latest round was recorded, in seconds since the epoch."""
        return (self.path / METRICS).stat().st_mtime

    def saved_rounds(self) -> list[int]:
        """Return the rounds whose state was saved and is kept, ascending."""
        return self.manifest().rounds

    def manifest(self) -> Manifest:
        """Return all that was saved; an empty manifest where nothing is."""
        path = self.path / MANIFEST
        if not os.path.lexists(path):
            if not self.has_run:
                return Manifest("")
            if not self.about_file.exists():
                foreign = f"{self.path} is not a run folder: it has a {CONFIG}, but no {MANIFEST}, which every run has"
                raise DamagedFile(foreign)
            what = f"{path} is missing, and without it no file of the run can be checked"
            raise DamagedFile(what, self._remedy(MANIFEST))
        try:
            return Manifest.read(path)
        except DamagedFile as error:
            raise DamagedFile(error.what, self._remedy(MANIFEST)) from None

    def config(self) -> dict[str, Any] | None:
        """Return the settings as they are in the file, None if there is none."""
        content = self._read(CONFIG, LARGEST)
        return None if content is None else settings_in(content, str(self.config_file))

    def about(self) -> dict[str, Any] | None:
        """Return where the run comes from, None if that was not recorded."""
        return self._mapping(ABOUT)

    def result(self) -> dict[str, Any] | None:
        """Return how the run ended, None while it has not."""
        return self._mapping(RESULT)

    def ended(self) -> int | None:
        """Return after how many rounds the run ended whose model is saved, None while it has not."""
        result = self.result()
        rounds = result.get("rounds") if result else None
        if result is not None and (not isinstance(rounds, int) or rounds < 0):
            raise InputError(f"{self.path / RESULT} cannot be used: expected the rounds after which the run ended")
        return rounds

    def records(self) -> list[dict[str, Any]]:
        """Return the rounds on record."""
        return self._consistent(METRICS, lambda manifest: read_records(self.path, manifest))

    def model(self) -> dict[str, torch.Tensor]:
        """Return the final weights, of which `ended` tells the round."""
        from safetensors.torch import load_file

        self.checked(RESULT)
        path = self.checked(MODEL)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def checkpoint(self, round: int) -> StoredCheckpoint:
        """Return the state after a round; raise DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(ROUND.format(round)))

    def best(self) -> StoredCheckpoint:
        """Return the state after the best round by validation accuracy; raise DamagedFile if it cannot be trusted."""
        return read_checkpoint(self.checked(BEST))

    def tracker_ids(self) -> dict[str, Any]:
        """Return the trackers' own names for this run, by tracker."""
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

    def checked(self, name: str) -> Path:
        """Return the path of a file that is as the run saved it; raise DamagedFile if it is not."""
        path = self.path / name

        def check(manifest: Manifest) -> Path:
            if not path.is_file():
                raise DamagedFile(f"{path} is {'not a regular file' if os.path.lexists(path) else 'missing'}")
            try:  # the hash of a file of another size would take time and tell nothing
                known = [one for one in manifest.files.get(name, ()) if one.size == path.stat().st_size]
                if known and Checksum.of_file(path) in known:
                    return path
            except OSError as error:
                raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
            raise DamagedFile(f"{path} {CHANGED}")

        return self._consistent(name, check)

    def damaged(self) -> list[DamagedFile]:
        """Return what is wrong with each file that is missing, or not as the run saved it; nothing if all are."""
        found: list[DamagedFile] = []
        checks: dict[str, Callable[[], object]] = {METRICS: self.records, TRACKING: self.tracker_ids}
        for name in (*self.manifest().files, *checks):
            try:
                checks.get(name, partial(self.checked, name))()
            except DamagedFile as error:
                if name in checks or name in self.manifest().files:  # not a state that a newer one has replaced
                    found.append(error)
        return found

    def _mapping(self, name: str) -> dict[str, Any] | None:
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
        path = self.path / name

        def read(manifest: Manifest) -> bytes | None:
            if name not in manifest.files and name != CONFIG:
                return None  # it is not the run's: left by a process that was killed, or put there since
            if not os.path.lexists(path):
                if name in manifest.files and name not in WRITTEN_AGAIN and self.has_run:
                    raise DamagedFile(f"{path} is missing")
                return None
            content = read_regular(path, most, "a file of a run")
            if Checksum.of(content) not in manifest.files.get(name, ()):
                raise DamagedFile(f"{path} {CHANGED}")
            return content

        return self._consistent(name, read)

    def _consistent(self, name: str, read: Callable[[Manifest], Read]) -> Read:
        """Return what `read` makes of a file, given the manifest; read again if that has changed meanwhile."""
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
        put_back, anew = "Put the original back", f"smofi run {self.config_file} --output NEW"
        if name == CONFIG:
            return f"{put_back}; other settings are a new run: {anew}"
        if name in WRITTEN_AGAIN or name == BEST:
            remove = ", or remove it" if (self.path / name).exists() else ""
            then = "does without it" if name == BEST else "writes it again"
            return f"{put_back}{remove}: smofi run --resume {self.path} {then}"
        if round_of(name) is not None:
            return f"{put_back}; smofi run --resume {self.path} goes on from an earlier round if it can"
        return f"{put_back}, or start anew in another folder: {anew}"


# --------------------------------------------------------------------------------------------------------------------
# The partition file of a run folder: which client has which sample, and the fingerprints of both sides of it.

PARTITION, TENSOR, METADATA = "partition.safetensors", "owner", "smofi"
OWNERS, LABELS = "owner_sha256", "labels_sha256"


@dataclass(frozen=True, eq=False)
class StoredPartition:
    """The partition file at `path`: the number of each sample's client, and the fingerprint of the labels that it was
    made for, if that is known."""

    path: Path
    owners: npt.NDArray[np.int32]
    labels: str | None


def read_partition_file(path: Path) -> StoredPartition:
    """Read the partition of a run folder, which has to be as the run saved it, or that of a file of the same format."""
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
            owners, about = file.get_tensor(TENSOR), json.loads((file.metadata() or {}).get(METADATA, "{}"))
    except InputError:
        raise
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a partition: {error}") from None
    if not isinstance(about, dict) or about.get(OWNERS) not in (None, partition_hash(owners)):
        raise InputError(f"{path} is damaged: it is not the partition that was written (its checksum differs)")
    return StoredPartition(path, owners, about.get(LABELS))


def write_partition_file(path: Path, owners: npt.NDArray[Any]) -> None:
    """Write the client of each sample, for `read_partition_file`."""
    write_atomically(path, encode_partition(owners))


def encode_partition(owners: npt.NDArray[Any], labels: npt.NDArray[Any] | None = None) -> bytes:
    """Return the content of a partition file; with the labels, it also knows which data it is for."""
    from safetensors.numpy import save

    known = {OWNERS: partition_hash(owners), LABELS: None if labels is None else labels_hash(labels)}
    tensors = {TENSOR: np.ascontiguousarray(owners, dtype="<i4")}
    return bytes(save(tensors, metadata={METADATA: json.dumps(known)}))  # a single entry: several have no fixed order


def partition_hash(owners: npt.NDArray[Any]) -> str:
    """Return the fingerprint of which client has which sample."""
    return hashlib.sha256(np.ascontiguousarray(owners, dtype="<i4").tobytes()).hexdigest()


def labels_hash(labels: npt.NDArray[Any]) -> str:
    """Return the fingerprint of the data that a partition divides."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def _find(path: Path) -> Path:
    """Return the partition file itself; nothing but a regular file is opened."""
    try:
        found = path / PARTITION if path.is_dir() else path
        if found.is_file():
            return found
        inside = sorted([*path.glob(f"*/{PARTITION}"), *path.glob(f"*/*/{PARTITION}")])  # of methods, of seeds
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if inside:
        raise InputError(f"{path} contains several runs: expected one of them, such as {inside[0].parent}")
    if path.is_dir():
        raise InputError(f"{path} has no {PARTITION}: expected a run folder")
    missing = "is no regular file" if path.exists() else "does not exist"
    raise InputError(f"{path} {missing}: expected a run folder or its {PARTITION}")
