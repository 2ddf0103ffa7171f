"""Save a run: one writer at a time, files that are whole or absent, and a manifest that lists them at every moment."""

from __future__ import annotations

import errno
import os
import re
import stat
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
    HistoryFile,
    Manifest,
    RunFolder,
    SavedRounds,
    StoredCheckpoint,
    encode_partition,
    partition_hash,
    round_of,
    rounds_in,
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
        self.owner = os.getpid()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = open(folder / LOCK, "a+b", buffering=0)  # noqa: SIM115  # open as long as the folder is written
        except OSError as error:
            refused = f"{folder} cannot be written" if folder.is_dir() else f"output={str(folder)!r} is not accepted"
            raise InputError(f"{refused}: {error.strerror}") from None
        try:
            self._take(folder)
        except BaseException:
            self.file.close()
            raise

    def _take(self, folder: Path) -> None:
        from filelock import lock_descriptor  # which loads asyncio

        try:
            if lock_descriptor(self.file.fileno(), blocking=False):
                self.file.truncate(0)
                self.file.write(f" {self.owner}".encode())
                return
            writer, _ = _written_in(folder / LOCK)
        except OSError as error:  # a file system without locks, a full disk
            raise InputError(f"{folder} cannot be locked for writing: {error.strerror}") from None
        raise InputError(
            f"{folder} is being written by another process (pid {writer or 'unknown'}); wait for it or stop it"
        )

    def release(self) -> None:
        """Let others write. In a process forked from the owner it only closes the copy: the owner's lock stays."""
        if not self.file.closed:
            if os.getpid() == self.owner:
                from filelock import unlock_descriptor

                unlock_descriptor(self.file.fileno())
            self.file.close()


def is_lock(path: Path) -> bool:
    """Whether a file is a lock, and not another program's file of that name."""
    return path.is_file() and path.stat().st_size < 32 and re.fullmatch(r"\d*", _written_in(path)[0]) is not None


def writer_of(folder: Path) -> str | None:
    """The id of the process that writes into a folder, if one does; on another machine it cannot be seen from here.

    Takes no lock, so that looking never disturbs the writer. Where locks are mandatory, the file itself tells; Linux
    lists all locks; elsewhere the process has to be alive.
    """
    path = folder / LOCK
    try:
        lock = path.stat()
        if not stat.S_ISREG(lock.st_mode):  # reading a pipe would wait
            return None
        process, unreadable = _written_in(path)
    except OSError:
        return None
    if unreadable:
        return process
    try:
        locks = Path("/proc/locks").read_text()
    except OSError:
        return process if os.name == "posix" and _alive(process) else None
    # 1: FLOCK  ADVISORY  WRITE 15335 fe:00:2147040 0 EOF    (some file systems give another device than stat does)
    device = (os.major(lock.st_dev), os.minor(lock.st_dev))
    for owner, major, minor, inode in re.findall(r"FLOCK +\w+ +WRITE +(\d+) +(\w+):(\w+):(\d+) ", locks):
        if int(inode) == lock.st_ino and (owner == process or (int(major, 16), int(minor, 16)) == device):
            return process or str(owner)
    return None


def _written_in(path: Path) -> tuple[str, bool]:
    """The process id in a lock file, and whether the first byte could not be read."""
    with open(path, "rb", buffering=0) as file:
        try:
            content, unreadable = file.read(), False
        except PermissionError:
            file.seek(1)
            content, unreadable = file.read(), True
    return content.decode(errors="replace").strip(), unreadable


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except PermissionError:  # another user's, and alive
        return True
    except (ValueError, OSError):
        return False
    return True


# --------------------------------------------------------------------------------------------------------------------
# Saving a run: files that are whole or absent, and a manifest that lists them at every moment.

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class RunWriter:
    """Writes the files of one run; its process has the lock of the folder.

    A new file is written before it is listed, and listed before an old one is removed. One that is replaced is listed
    as it was and as it will be.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.path = folder, folder.path
        self.manifest = folder.manifest()
        self.history = HistoryFile(self.path, self.manifest.run)
        self.ended = folder.ended()
        """After how many rounds the run ended whose model is in the folder; None while there is none."""

    @property
    def saved_rounds(self) -> list[int]:
        """The rounds whose state is saved, ascending."""
        return rounds_in(self.manifest)

    # ---------------------------------------------------------------------------------------------- before it begins

    def describe(
        self, config: str, about: Mapping[str, Any], owners: npt.NDArray[Any], labels: npt.NDArray[Any]
    ) -> None:
        """Write what the run is before it starts. The configuration comes last: with it, the folder has a run."""
        run = uuid.uuid4().hex
        about = {"run": run, **about, "partition_sha256": partition_hash(owners)}
        self._begin(
            Manifest(run),
            {
                PARTITION: encode_partition(owners, labels),
                ABOUT: to_json(about, indent=1).encode(),
                CONFIG: config.encode(),
            },
        )

    def describe_comparison(self, config: str, runs: Mapping[str, str]) -> None:
        """Write which runs are compared, by the names of their folders, when each is described."""
        self._begin(Manifest(uuid.uuid4().hex, runs=runs), {CONFIG: config.encode()})

    def _begin(self, manifest: Manifest, contents: Mapping[str, bytes]) -> None:
        self.history = HistoryFile(self.path, manifest.run)
        new = {name: [Checksum.of(content)] for name, content in contents.items()}
        before = self.manifest.files  # of a start that was cut off
        self._list(replace(manifest, files={name: [*before.get(name, ()), *sums] for name, sums in new.items()}))
        for name, content in contents.items():
            write_atomically(self.path / name, content)
        self._list(replace(manifest, files=new))

    def write_config(self, config: str) -> None:
        """Write the configuration anew, as YAML."""
        self._put({CONFIG: config.encode()})

    # -------------------------------------------------------------------------------------------------- while it runs

    def write_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write the records of all rounds, in place of the old ones."""
        content = self.history.encode(records)
        now = self.history.saved
        if [now] == list(self.manifest.saved) and self.history.whole:
            self.history.cut()
            return  # the very same
        self._list(replace(self.manifest, saved=[*self.manifest.saved, now]))
        write_atomically(self.path / METRICS, content)
        self._list(replace(self.manifest, saved=[now]))
        self.history.forget_sums()

    def append_records(self, records: Sequence[Any]) -> None:
        """Add the records, dataclasses, of those rounds that are not in the file yet."""
        if not self.history.whole:
            self.write_records(map(asdict, records))
        for record in records[self.history.rounds :]:
            self.history.append(asdict(record))

    def save(self, checkpoint: StoredCheckpoint, keep: int, best: bool = False) -> None:
        """Save the state after a round whose record is written, and keep as many of the newest as `keep` says; it may
        be that of the best round, too.

        Where there is no room, older states are given up for this one, but never the newest.
        """
        content = checkpoint.encode()
        names = [ROUND.format(checkpoint.round), *([BEST] if best else [])]
        old = [round for round in self.saved_rounds if round != checkpoint.round][: 1 - keep or None]
        self._put(dict.fromkeys(names, content), [self.history.saved], without=[ROUND.format(round) for round in old])
        self._remove_leftovers(checkpoint.round)
        self.history.forget_sums()

    def save_best(self, checkpoint: StoredCheckpoint) -> None:
        """Save the state after the best round."""
        self._put({BEST: checkpoint.encode()})

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

    # ----------------------------------------------------------------------------------------------------- at its end

    def write_end(self, weights: Mapping[str, Tensor], result: Mapping[str, Any]) -> None:
        """Write the final model and how the run ended; nothing if that is what is there."""
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        model = bytes(save(tensors, metadata={"smofi": to_json(result)}))
        # all rounds are safe with it, even if no state follows
        self._put({MODEL: model, RESULT: to_json(result, indent=1).encode()}, [self.history.saved])
        self.history.forget_sums()
        self.ended = result["rounds"]

    def remove_end(self) -> None:
        """Remove the model and how the run ended, when the run has gone on and a later state is saved."""
        self._list(_without(self.manifest, WRITTEN_AGAIN))
        for name in WRITTEN_AGAIN:
            (self.path / name).unlink(missing_ok=True)
        self.ended = None

    def missing(self) -> list[str]:
        """Files that are gone and that the run can do without; raises DamagedFile for one that is not as it was saved.

        Those that are read anyway are not looked at, nor are states of rounds: if one is damaged, there may be another.
        """
        gone = []
        for name in (PARTITION, *WRITTEN_AGAIN, BEST):
            if name in self.manifest.files:
                if name != PARTITION and not (self.path / name).exists():
                    gone.append(name)
                else:
                    self.folder.checked(name)
        return gone

    # -------------------------------------------------------------------------------------------------------- writing

    def _put(
        self, contents: Mapping[str, bytes], saved: Sequence[SavedRounds] = (), without: Sequence[str] = ()
    ) -> None:
        """Write files and list them, with the rounds that were `saved`; then remove those that they are in place of.

        Files that are listed and there already are left alone.
        """
        sums = {name: [Checksum.of(content)] for name, content in contents.items()}
        new = [name for name in contents if not self._there(name, sums[name])]
        if both := {name: [*self.manifest.files[name], *sums[name]] for name in new if name in self.manifest.files}:
            self._list(replace(self.manifest, files={**self.manifest.files, **both}))
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
        for name in without:
            (self.path / name).unlink(missing_ok=True)

    def _there(self, name: str, sums: Sequence[Checksum]) -> bool:
        path = self.path / name
        return list(self.manifest.files.get(name, ())) == list(sums) and path.is_file()

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
            self._list(_without(self.manifest, older))
            write_atomically(path, content)

    def _remove_leftovers(self, newest: int) -> None:
        """Remove states of earlier rounds that are not listed: a process was killed before it could."""
        for path in (self.path / CHECKPOINTS).iterdir():
            round = round_of(f"{CHECKPOINTS}/{path.name}")
            if round is not None and round < newest and round not in self.saved_rounds:
                path.unlink(missing_ok=True)

    def _list(self, manifest: Manifest) -> None:
        if manifest != self.manifest:
            write_atomically(self.path / MANIFEST, manifest.encode())
            self.manifest = manifest


def write_tracker_id(folder: RunFolder, tracker: str, id: str) -> None:
    """Record what a tracker calls a run."""
    kept = {"run": folder.manifest().run, "trackers": {**folder.tracker_ids(), tracker: id}}
    write_atomically(folder.path / TRACKING, sealed(kept))


def _without(manifest: Manifest, names: Iterable[str]) -> Manifest:
    """The same without these files."""
    gone = set(names)
    return replace(manifest, files={name: sums for name, sums in manifest.files.items() if name not in gone})
