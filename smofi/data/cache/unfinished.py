"""What is being written has a name of its own until it is whole, and a lock beside it that goes with its process.

.unfinished-<random>          a file or a folder
.unfinished-<random>.lock     locked by the process that writes it, however that ends

So whatever can be locked was left by a process that was killed, on this machine or another, and is cleared.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

UNFINISHED, LOCK = ".unfinished-", ".lock"
A_DAY = 24 * 3600
"""Where a file system knows no locks, what is older than this was left behind."""


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A path in this folder to write at; what is still there at the end is removed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with unfinished(folder) as path:
    ...     size = path.write_text("half of it")
    >>> list(folder.iterdir())
    []
    """
    while True:
        path = folder / f"{UNFINISHED}{uuid.uuid4().hex}"
        with open(_lock_of(path), "ab") as file:
            if not _locked(file, otherwise=True) or not _is_at(file, _lock_of(path)):
                continue  # another process took it for abandoned before it was locked
            try:
                yield path
            finally:
                _remove(path)
                _remove(_lock_of(path))
            return


def discard(path: Path) -> None:
    """Remove a file or a folder with all that is in it; half of it is never seen under its name."""
    with suppress(OSError), unfinished(path.parent) as away:
        os.rename(path, away)


def clear_abandoned(folder: Path) -> None:
    """Remove what processes left in a folder that were killed while they wrote."""
    try:
        names = {name.removesuffix(LOCK) for name in os.listdir(folder) if name.startswith(UNFINISHED)}
    except OSError:  # there is no such folder
        return
    for path in (folder / name for name in names):
        # the lock is made if there is none, so that its owner, if it comes now, finds it taken
        with suppress(OSError), open(_lock_of(path), "ab") as file:
            if _locked(file, otherwise=_old(path)):
                _remove(path)
                _remove(_lock_of(path))


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + LOCK)


def _locked(file: IO[bytes], otherwise: bool) -> bool:
    """Whether this process now has the lock; `otherwise`, where the file system knows no locks."""
    try:
        return lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return otherwise


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _old(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > A_DAY
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
