"""Which folders a new run may take: new ones, empty ones, and those where a run was ended while it started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from smofi.errors import InputError
from smofi.files import part_of
from smofi.runs.comparison import resuming_command
from smofi.runs.folder import RunFolder
from smofi.runs.history import METRICS
from smofi.runs.lock import LOCK, is_lock
from smofi.runs.manifest import MANIFEST, DamagedFile, Manifest


def check_free(path: Path, below: Sequence[Path] = ()) -> None:
    """Refuse a folder that has a run, or files of other people or programs, or that may not be written; `below` are the
    folders of the runs of a comparison.

    >>> check_free(Path("no/such/folder"))
    """
    try:
        if not path.exists() and not path.is_symlink():
            _check_writable(path)
            return
        if not path.is_dir():
            what = "file" if path.exists() else "link to nothing"
            raise InputError(f"output={str(path)!r} is not accepted: expected a folder, but it is a {what}")
        if RunFolder(path).has_run and (path / MANIFEST).is_file():
            raise InputError(
                f"output={str(path)!r} is not accepted: it already contains a run; expected a new folder, or: "
                f"{resuming_command(RunFolder(path))}"
            )
        strange = [name for name in _others(path) if not _can_begin_anew(path / name, below)]
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"output={str(path)!r} is not accepted: {reason}") from None
    if strange:
        raise InputError(
            f"output={str(path)!r} is not accepted: expected a new or an empty folder, but it has "
            f"{', '.join(sorted(strange)[:3])}{' and more' if len(strange) > 3 else ''}"
        )
    _check_writable(path)


def _check_writable(path: Path) -> None:
    """Refuse a folder that cannot be made or written, before any work is done for it."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(f"output={str(path)!r} is not accepted: Permission denied: {there} may not be written")


def _others(path: Path) -> list[str]:
    """What is in a folder beside the files of a run that was ended while it started."""
    folder = RunFolder(path)
    try:
        manifest = folder.manifest()
    except DamagedFile:  # another program's, or damaged
        manifest = Manifest("")
    own = {part_of(MANIFEST), part_of(folder.clients_file.name)}
    if manifest.run and not any(one.rounds for one in manifest.saved):
        own |= {MANIFEST, *map(part_of, manifest.files)} | {name for name in manifest.files if _is_whole(folder, name)}
    if is_lock(path / LOCK):
        own.add(LOCK)
    if folder.clients_file.is_file() and folder.clients_file.stat().st_size <= len("[]\n"):  # no client has come yet
        own.add(folder.clients_file.name)
    return [entry.name for entry in path.iterdir() if entry.name not in own]


def _is_whole(folder: RunFolder, name: str) -> bool:
    try:
        folder.checked(name)
    except DamagedFile:
        return False
    return True


def _can_begin_anew(path: Path, below: Sequence[Path]) -> bool:
    """Whether the runs of a comparison that was ended while it started have not begun: the run that this folder is for,
    or those of a seed."""
    if path in below:
        return path.is_dir() and not (path / METRICS).exists() and not _others(path)
    inside = [one for one in below if path in one.parents]
    return bool(inside) and path.is_dir() and all(_can_begin_anew(one, inside) for one in path.iterdir())
