"""Where the cache lies, and what a data set's files look like from outside."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

FORMAT = 2
"""Part of every cache's name: increase it when a reader decodes the same files differently."""


def data_home() -> Path:
    """Where data sets are looked for by name, and where their caches lie.

    >>> data_home().is_absolute()
    True
    """
    home = os.environ.get("SMOFI_DATA")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(home) if home else Path(caches) / "smofi").expanduser().absolute()


def place_of(name: str, origin: str, version: str) -> Path:
    """The folder of a data set; all versions of it have names that are alike up to the last hyphen."""
    return data_home() / "decoded" / f"{name}-{_short_hash(origin)}-{_short_hash(f'{FORMAT} {version}')}"


def fingerprint(files: Iterable[Path]) -> str:
    """Names, sizes and times of these files, as a short hash."""
    lines = []
    for path in sorted(map(str, files)):
        status = os.stat(path)
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return _short_hash("\n".join(lines))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
