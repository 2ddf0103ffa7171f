"""Writing a file so that it is whole or absent, and JSON that every reader accepts."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


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
    except BaseException:  # Ctrl-C too
        if not temporary.is_dir():
            temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened, and a rename is kept without it
        _flush_folder(path.parent)


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
