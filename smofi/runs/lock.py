"""One writer at a time: the lock on a run folder, and who has it.

The lock belongs to the process and goes with it, however that ends. The file contains the writer's process id, after a
blank: where locks are mandatory (Windows), the first byte of a locked file is the one that others cannot read.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from smofi.errors import InputError

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
