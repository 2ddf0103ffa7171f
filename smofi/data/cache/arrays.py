"""A folder of arrays that reveals its own damage.

<name>.npy       an array each
about.json       what is known, and of each array its type and shape, the size of its file and its checksum; sealed
checked.json     which large files were found whole before (`checks`)

It is whole or absent: written beside its place, brought to the disk, then renamed.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from smofi.data.cache.checks import Checks
from smofi.data.cache.unfinished import unfinished
from smofi.data.decoded import Array
from smofi.files import flush, sealed, unsealed

ABOUT, CHECKED = "about.json", "checked.json"
TYPES = {np.dtype(name).str for name in ("uint8", "int32", "int64", "float32")}
PIECE = 2**20
T = TypeVar("T")


class Damaged(Exception):
    """A folder that is not as it was written; the message is a clause that tells what is wrong."""


@dataclass(frozen=True)
class _File:
    """What the file of an array is like."""

    dtype: str
    shape: list[int]
    size: int
    sha256: str


@dataclass(frozen=True, eq=False)
class Arrays:
    """What a folder has: the arrays, memory-mapped, and what is known about them. All of `read` were read just now."""

    arrays: dict[str, Array]
    about: dict[str, Any]
    checksums: dict[str, str]
    read: frozenset[str]


def write_arrays(place: Path, of: str, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Make the folder, in place of what is there; `of` says what it belongs to."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(place.parent) as new, unfinished(place.parent) as old:
        new.mkdir()
        files = {name: asdict(_write(new / f"{name}.npy", array)) for name, array in arrays.items()}
        (new / ABOUT).write_bytes(sealed({"of": of, "files": files, "about": about}))
        flush(*new.iterdir(), new)
        with suppress(FileNotFoundError):
            os.rename(place, old)
        try:
            os.rename(new, place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster: then its folder stays
                raise
        flush(place.parent)


def read_arrays(place: Path, of: str, build: Callable[[Arrays], T]) -> T | None:
    """What `build` makes of the folder, None if there is none; `build` raises a ValueError if it cannot be right.

    What is not as it was written, or belongs to something else, is `Damaged`.
    """
    while (inode := _inode(place)) is not None:
        try:
            return _read(place, of, build)
        except Damaged:
            if _inode(place) == inode:  # otherwise another process has just put a new one in its place
                raise
    return None


class _Hashing:
    """Writes to a file, and hashes what was to be written, whatever the disk makes of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.hash.update(content)
        return self.file.write(content)


def _write(path: Path, array: Array) -> _File:
    with open(path, "wb") as file:
        hashing = _Hashing(file)
        np.save(hashing, np.ascontiguousarray(array), allow_pickle=False)
        return _File(array.dtype.str, list(array.shape), file.tell(), hashing.hash.hexdigest())


def _read(place: Path, of: str, build: Callable[[Arrays], T]) -> T:
    with _damaged_if_anything_fails(ABOUT):
        with _opened(place / ABOUT) as file:
            content = unsealed(text := file.read())
        if content["of"] != of:
            raise ValueError("it belongs to something else")
        files = {name: _File(**facts) for name, facts in content["files"].items()}
    checks = Checks(place / CHECKED, of=hashlib.sha256(text).hexdigest())
    arrays, read = {}, set()
    for name, facts in files.items():
        with _damaged_if_anything_fails(f"{name}.npy"), _opened(place / f"{name}.npy") as file:
            if not checks.trusts(name, os.fstat(file.fileno())):
                _compare(name, file, facts, checks)
                read.add(name)
            arrays[name] = _mapped(file, facts)
    with _damaged_if_anything_fails(ABOUT):
        checksums = {name: facts.sha256 for name, facts in files.items()}
        built = build(Arrays(arrays, content["about"], checksums, frozenset(read)))
    checks.keep()
    return built


@contextmanager
def _damaged_if_anything_fails(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(f"{name}: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    """The file, if it is one: anything else might have no end, or no beginning."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a file")
    return open(path, "rb")


def _compare(name: str, file: IO[bytes], facts: _File, checks: Checks) -> None:
    """Read all of a file, and compare it with what was written."""
    at, status, checksum = time.time_ns(), os.fstat(file.fileno()), hashlib.sha256()
    if status.st_size != facts.size:
        raise ValueError(f"{status.st_size:,} bytes, but {facts.size:,} were written")
    while piece := file.read(PIECE):
        checksum.update(piece)
    if checksum.hexdigest() != facts.sha256:
        raise ValueError("its checksum is another")
    checks.note(name, status, at)


def _mapped(file: IO[bytes], facts: _File) -> Array:
    """The array at the end of an open file, so that it is in the very file that was compared."""
    if facts.dtype not in TYPES or not all(type(size) is int and size >= 0 for size in facts.shape):
        raise ValueError(f"type {facts.dtype!r:.40} and shape {facts.shape!r:.40} are never written")
    dtype = np.dtype(facts.dtype)
    begin = facts.size - dtype.itemsize * math.prod(facts.shape)
    if begin < 0:
        raise ValueError(f"{facts.size:,} bytes are too few for shape {facts.shape}")
    # copy-on-write: torch wants arrays that could be written, and nothing ever is
    return np.memmap(file, dtype, mode="c", offset=begin, shape=tuple(facts.shape))


def _inode(place: Path) -> int | None:
    try:
        return os.stat(place).st_ino
    except OSError:
        return None
