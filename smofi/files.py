"""Files written so that they are whole or absent, files read that may be anything, JSON that every reader accepts."""

from __future__ import annotations

import json
import math
import os
import stat
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
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if not temporary.is_dir():
            temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened, and a rename is kept without it
        _flush_folder(path.parent)


def read_regular(path: Path, most: int, expected: str) -> bytes:
    """A whole file of at most `most` bytes; never waits, as reading a pipe would. `expected` is what an error asks for.

    >>> read_regular(Path("/dev/zero"), 100, "a YAML file")
    Traceback (most recent call last):
    smofi.errors.InputError: /dev/zero is not a regular file: expected a YAML file
    """
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
    """Strict JSON: numbers that are not finite become null.

    >>> to_json({"loss": float("nan")})
    '{"loss": null}'
    """

    def strict(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {key: strict(one) for key, one in value.items()}
        return [strict(one) for one in value] if isinstance(value, (list, tuple)) else value

    return json.dumps(strict(value), indent=indent)


def _flush_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
