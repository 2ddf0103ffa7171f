"""Which large files were found whole before, so that a start need not read them again.

A file is trusted while its size, its times and its inode are what they were when all of it was last read, for a week.
No program can set back the time at which a file was last changed (ctime, except on Windows), so a change is noticed
however it was made. What changes beneath the file system, such as a bit on the disk, is noticed within the week.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from smofi.files import sealed, unsealed, write_atomically

SMALL = 2**24
"""Bytes. Smaller files are read in every run: that takes some ten milliseconds."""

SECOND = 10**9
TRUSTED = 7 * 24 * 3600 * SECOND
SETTLED = 2 * SECOND
"""Times of files are coarse: one changed this shortly before it was read may have changed since, at the same time."""


class Checks:
    """What the large files of a folder looked like when they were last found whole, kept in a file beside them.

    `of` are the checksums that they were compared with. Where the file cannot be written, they are read in every run.
    """

    def __init__(self, path: Path, of: str) -> None:
        self.path, self.of, self.new = path, of, False
        self.found: dict[str, list[int]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            kept = unsealed(path.read_bytes()) if path.is_file() else {}
            self.found = dict(kept["found"]) if kept["of"] == of else {}

    def trusts(self, name: str, status: os.stat_result) -> bool:
        """Whether a file was found whole within a week, and has not changed since."""
        match self.found.get(name):
            case [int(at), *looks]:
                fresh = 0 <= time.time_ns() - at < TRUSTED
                return status.st_size > SMALL and fresh and looks == _looks(status)
        return False

    def note(self, name: str, status: os.stat_result, at: int) -> None:
        """A file with this status was found whole; `at` is when reading it began."""
        if status.st_size > SMALL and max(status.st_mtime_ns, status.st_ctime_ns) < at - SETTLED:
            self.found[name], self.new = [at, *_looks(status)], True

    def keep(self) -> None:
        """Write down what was noted, if anything was."""
        if self.new:
            with suppress(OSError):  # no permission, or no room
                write_atomically(self.path, sealed({"of": self.of, "found": self.found}))


def _looks(status: os.stat_result) -> list[Any]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
