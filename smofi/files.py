"""Files written whole or not at all, files read that may be anything, and JSON: strict, or revealing its own damage."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from smofi.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one go: temporary name, flush to disk, rename, flush the folder.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_atomically(path, b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    temporary = path.with_name(part_of(path.name))
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too
        if not temporary.is_dir():
            temporary.unlink(missing_ok=True)
        raise
    flush(path.parent)


def part_of(name: str) -> str:
    """Name a file while it is being written."""
    return f".{name}.part"


def flush(*paths: Path) -> None:
    """Bring files, and the names in folders, to the disk: all at once, which takes little longer than one."""
    if len(paths) == 1:
        _flush(paths[0])
    else:
        with ThreadPoolExecutor(len(paths)) as threads:
            list(threads.map(_flush, paths))


def read_regular(path: Path, most: int, expected: str) -> bytes:
    """Read a whole file of at most `most` bytes, never waiting as for a pipe; `expected` is what an error asks for."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path} is a folder: expected {expected}")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file: expected {expected}")
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: expected {expected}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; expected {expected}") from None
    except InputError:
        raise
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"{path} cannot be read: {error}; expected {expected}") from None
    if len(content) > most:
        raise InputError(f"{path} is larger than {most // 1024:,} KiB: expected {expected}")
    return content


def to_json(value: Any, indent: int | None = None) -> str:
    """Write strict JSON: numbers that are not finite become null."""

    def strict(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {key: strict(one) for key, one in value.items()}
        return [strict(one) for one in value] if isinstance(value, (list, tuple)) else value

    return json.dumps(strict(value), indent=indent)


def sealed(value: Any) -> bytes:
    """Write JSON with a checksum of itself, for `unsealed`.

    >>> sealed({"loop": 0.25})[:28], sealed({"loop": 0.25})[-26:]
    (b'{"sha256": "fdf6749d0e8e1928', b'"content": {"loop": 0.25}}')
    """
    content = json.dumps(value)
    return f'{{"sha256": "{hashlib.sha256(content.encode()).hexdigest()}", "content": {content}}}'.encode()


def unsealed(text: bytes) -> Any:
    """Read what was sealed; ValueError if a single byte of it is another.

    >>> unsealed(sealed({"loop": 0.25})), unsealed(sealed({"loop": 0.25}).replace(b"2", b"3"))
    Traceback (most recent call last):
    ValueError: its checksum is another
    """
    try:
        value = json.loads(text)["content"]
        if sealed(value) == text:
            return value
    except (ValueError, LookupError, TypeError, RecursionError):  # whatever it is, it was never sealed
        pass
    raise ValueError("its checksum is another")


def _flush(path: Path) -> None:
    folder = path.is_dir()
    if folder and os.name != "posix":  # there a folder cannot be opened, and a rename is kept without it
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OTHER_FILES = 512
"""Files that a process opens besides those it was made for: modules, data, checkpoints."""


def allow_files(count: int) -> int:
    """Raise the limit on open files, as far as that is allowed, if `count` more would come near it; return how many
    there may be."""
    try:
        import resource
    except ImportError:  # not on Windows
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        soft = max(soft, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return count if soft == resource.RLIM_INFINITY else max(1, min(count, soft - OTHER_FILES))
