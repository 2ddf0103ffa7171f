"""Save a run: one writer at a time, files that are whole or absent, and a manifest that lists them at every moment."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smofi.errors import InputError
from smofi.files import sealed, to_json, write_atomically
from smofi.runs.folder import (
    ABOUT,
    BEST,
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    METRICS,
    MODEL,
    PARTITION,
    RESULT,
    ROUND,
    TRACKING,
    WRITTEN_AGAIN,
    Checksum,
    Manifest,
    RunFolder,
    SavedRounds,
    StoredCheckpoint,
    encode_partition,
    partition_hash,
    round_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

# --------------------------------------------------------------------------------------------------------------------
# One writer at a time: the lock on a run folder, and who has it.

LOCK = ".lock"


class FolderLock:
    """The right to write into a folder, which is created if need be; refused while another process has it."""

    def __init__(self, folder: Path) -> None:
        from filelock import lock_descriptor  # which loads asyncio

        self.owner = os.getpid()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = open(folder / LOCK, "a+b", buffering=0)  # noqa: SIM115  # open as long as the folder is written
        except OSError as error:
            refused = f"{folder} cannot be written" if folder.is_dir() else f"output={str(folder)!r} is not accepted"
            raise InputError(f"{refused}: {error.strerror}") from None
        try:
            if not lock_descriptor(self.file.fileno(), blocking=False):
                writer = _noted(folder / LOCK) or "unknown"
                raise InputError(f"{folder} is being written by another process (pid {writer}); wait for it or stop it")
            self.file.truncate(0)
            self.file.write(f" {self.owner}".encode())
        except BaseException as error:
            self.file.close()
            if isinstance(error, OSError):  # a file system without locks, a full disk
                raise InputError(f"{folder} cannot be locked for writing: {error.strerror}") from None
            raise

    def release(self) -> None:
        """Let others write. In a process forked from the owner only close the copy: the owner's lock stays."""
        if not self.file.closed:
            if os.getpid() == self.owner:
                from filelock import unlock_descriptor

                unlock_descriptor(self.file.fileno())
            self.file.close()


def is_lock(path: Path) -> bool:
    """Tell whether a file is a lock, and not another program's file of that name."""
    return path.is_file() and path.stat().st_size < 32 and re.fullmatch(r"\d*", _noted(path)) is not None


def writer_of(folder: Path) -> str | None:
    """Return the id of the process that writes into a folder, if one does; on another machine it cannot be seen.

    Takes no lock, so that looking never disturbs the writer. Linux lists all locks; elsewhere the process that the lock
    names has to be alive.
    """
    path = folder / LOCK
    try:
        if not path.is_file():  # reading a pipe would wait
            return None
        lock, process = path.stat(), _noted(path)
    except OSError:
        return None
    try:
        locks = Path("/proc/locks").read_text()
    except OSError:
        try:
            os.kill(int(process), 0)
        except PermissionError:  # another user's, and alive
            return process
        except (ValueError, OSError):
            return None
        return process
    # 1: FLOCK  ADVISORY  WRITE 15335 fe:00:2147040 0 EOF    (some file systems give another device than stat does)
    device = (os.major(lock.st_dev), os.minor(lock.st_dev))
    for owner, major, minor, inode in re.findall(r"FLOCK +\w+ +WRITE +(\d+) +(\w+):(\w+):(\d+) ", locks):
        if int(inode) == lock.st_ino and (owner == process or (int(major, 16), int(minor, 16)) == device):
            return process or str(owner)
    return None


def _noted(lock: Path) -> str:
    return lock.read_bytes().decode(errors="replace").strip()


# --------------------------------------------------------------------------------------------------------------------
# Saving a run: files that are whole or absent, and a manifest that lists them at every moment.

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class RunWriter:
    """Write the files of one run; its process has the lock of the folder.

    A new file is written before it is listed, and listed before an old one is removed. One that is replaced is listed
    as it was and as it will be. Rounds are appended to metrics.jsonl: `saved` has those that this writer has written.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.path = folder, folder.path
        self.manifest = folder.manifest()
        self.ended = folder.ended()
        """After how many rounds the run ended whose model is in the folder; None while there is none."""
        self.saved, self.digest = SavedRounds(), hashlib.sha256()

    def describe(
        self, config: str, about: Mapping[str, Any], owners: npt.NDArray[Any], labels: npt.NDArray[Any]
    ) -> None:
        """Write what the run is before it starts. The configuration comes last: with it, the folder has a run."""
        run = uuid.uuid4().hex
        about = {"run": run, **about, "partition_sha256": partition_hash(owners)}
        contents = {PARTITION: encode_partition(owners, labels), ABOUT: to_json(about, indent=1).encode()}
        self._begin(Manifest(run), {**contents, CONFIG: config.encode()})

    def describe_comparison(self, config: str, runs: Mapping[str, str]) -> None:
        """Write which runs are compared, by the names of their folders, when each is described."""
        self._begin(Manifest(uuid.uuid4().hex, runs=runs), {CONFIG: config.encode()})

    def _begin(self, manifest: Manifest, contents: Mapping[str, bytes]) -> None:
        new = {name: [Checksum.of(content)] for name, content in contents.items()}
        before = self.manifest.files  # of a start that was cut off
        self._list(replace(manifest, files={name: [*before.get(name, ()), *sums] for name, sums in new.items()}))
        for name, content in contents.items():
            write_atomically(self.path / name, content)
        self._list(replace(manifest, files=new))

    def write_config(self, config: str) -> None:
        self._put({CONFIG: config.encode()})

    def write_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write the records of all rounds, in place of the old ones; nothing if that is what is there."""
        content = b"".join(map(_line, records))
        self.saved, self.digest = SavedRounds(content.count(b"\n"), Checksum.of(content)), hashlib.sha256(content)
        if [self.saved] != list(self.manifest.saved) or not self._whole:
            self._list(replace(self.manifest, saved=[*self.manifest.saved, self.saved]))
            write_atomically(self.path / METRICS, content)
            self.list_records()

    def append_records(self, records: Sequence[Any], listed: bool = True) -> None:
        """Add the records, dataclasses, of those rounds that are not in the file yet, in place of what was not written
        whole. They count once they are `listed`, which `save` does, too."""
        if not self._whole:
            self.write_records(map(asdict, records))
        for line in map(_line, map(asdict, records[self.saved.rounds :])):
            with open(self.path / METRICS, "ab") as file:
                file.truncate(self.saved.content.size)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self.digest.update(line)
            content = Checksum(self.saved.content.size + len(line), self.digest.hexdigest())
            self.saved = SavedRounds(self.saved.rounds + 1, content)
        if listed:
            self.list_records()

    def list_records(self) -> None:
        self._list(replace(self.manifest, saved=[self.saved]))

    def save(self, checkpoint: StoredCheckpoint, keep: int, best: bool = False) -> None:
        """Save the state after a round whose record is written, and keep as many of the newest as `keep` says; it may
        be that of the best round, too.

        Where there is no room, older states are given up for this one, but never the newest.
        """
        content = checkpoint.encode()
        names = [ROUND.format(checkpoint.round), *([BEST] if best else [])]
        old = [round for round in self.saved_rounds if round != checkpoint.round][: 1 - keep or None]
        self._put(dict.fromkeys(names, content), [self.saved], without=[ROUND.format(round) for round in old])
        for path in (self.path / CHECKPOINTS).iterdir():  # the old ones, and what a killed process left
            round = round_of(f"{CHECKPOINTS}/{path.name}")
            if round is not None and round < checkpoint.round and round not in self.saved_rounds:
                path.unlink(missing_ok=True)

    def save_best(self, checkpoint: StoredCheckpoint) -> None:
        self._put({BEST: checkpoint.encode()})

    @property
    def saved_rounds(self) -> list[int]:
        return self.manifest.rounds

    def forget(self, names: Iterable[str]) -> None:
        """No longer list these files, which are gone."""
        self._list(_without(self.manifest, names))

    def set_aside(self, round: int) -> None:
        """Rename a damaged state, so that it no longer counts as one."""
        path = self.path / ROUND.format(round)
        if path.exists():
            asides = (path.with_suffix(f".damaged{number}") for number in ("", *range(2, 1000)))
            path.rename(next(aside for aside in asides if not aside.exists()))
        self.forget([ROUND.format(round)])

    def write_end(self, weights: Mapping[str, Tensor], result: Mapping[str, Any]) -> None:
        """Write the final model and how the run ended; nothing if that is what is there."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        model = bytes(save(tensors, metadata={"smofi": to_json(result)}))
        self._put({MODEL: model, RESULT: to_json(result, indent=1).encode()}, [self.saved])
        self.ended = result["rounds"]

    def remove_end(self) -> None:
        """Remove the model and how the run ended, when the run has gone on and a later state is saved."""
        self.forget(WRITTEN_AGAIN)
        for name in WRITTEN_AGAIN:
            (self.path / name).unlink(missing_ok=True)
        self.ended = None

    def missing(self) -> list[str]:
        """Return files that are gone and that the run can do without; raise DamagedFile for a file that is not as it
        was saved. States of rounds are not looked at: if one is damaged, there may be another."""
        listed = [name for name in (PARTITION, *WRITTEN_AGAIN, BEST) if name in self.manifest.files]
        gone = [name for name in listed if name != PARTITION and not (self.path / name).exists()]
        for name in listed:
            if name not in gone:
                self.folder.checked(name)
        return gone

    @property
    def _whole(self) -> bool:
        """Tell whether all rounds that were written are still there."""
        path = self.path / METRICS
        return (path.stat().st_size if path.exists() else 0) >= self.saved.content.size

    def _put(
        self, contents: Mapping[str, bytes], saved: Sequence[SavedRounds] = (), without: Sequence[str] = ()
    ) -> None:
        """Write files that are not there as they should be; list them and the rounds `saved`, and not `without`."""
        sums = {name: [Checksum.of(content)] for name, content in contents.items()}
        files = self.manifest.files
        new = [name for name in contents if files.get(name) != sums[name] or not (self.path / name).is_file()]
        if both := {name: [*files[name], *sums[name]] for name in new if name in files}:
            self._list(replace(self.manifest, files={**files, **both}))
        for name in new:
            self._write_or_make_room(name, contents[name])
        listed = replace(self.manifest, files={**self.manifest.files, **sums}, saved=saved or self.manifest.saved)
        try:
            self._list(_without(listed, without))
        except OSError:
            for name in new:
                if name not in self.manifest.files:  # what is not listed would be left behind
                    (self.path / name).unlink(missing_ok=True)
            raise

    def _write_or_make_room(self, name: str, content: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        try:
            write_atomically(path, content)
        except OSError as error:
            older = [ROUND.format(round) for round in self.saved_rounds[:-1]]
            if error.errno not in NO_ROOM or not older:
                raise
            for old in older:  # before they are taken from the list, which takes room, too
                (self.path / old).unlink(missing_ok=True)
            self.forget(older)
            write_atomically(path, content)

    def _list(self, manifest: Manifest) -> None:
        if manifest != self.manifest:
            write_atomically(self.path / MANIFEST, manifest.encode())
            self.manifest = manifest


def write_tracker_id(folder: RunFolder, tracker: str, id: str) -> None:
    """Record what a tracker calls a run."""
    kept = {"run": folder.manifest().run, "trackers": {**folder.tracker_ids(), tracker: id}}
    write_atomically(folder.path / TRACKING, sealed(kept))


def _without(manifest: Manifest, names: Iterable[str]) -> Manifest:
    gone = set(names)
    return replace(manifest, files={name: sums for name, sums in manifest.files.items() if name not in gone})


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{to_json(record)}\n".encode()
