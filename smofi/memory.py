"""The cores of this machine, and memory that may be taken: what the user's limit leaves, or what is available."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from smofi.errors import InputError, check_size

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")

LITTLE = 2**20
"""Bytes for which there is always room."""

_LIMIT: ContextVar[int | str | None] = ContextVar("memory_limit", default=None)


@dataclass(frozen=True)
class Room:
    """The bytes that may be taken, infinitely many where nothing is known, and what a refusal calls them."""

    bytes: float
    words: str

    def holds(self, needed: int) -> bool:
        return needed <= max(self.bytes, LITTLE)


@contextmanager
def limited(limit: int | str | None) -> Iterator[None]:
    """Let what is read inside take no more than fits into `limit`, as `memory_limit` is written; None is no limit.

    >>> with limited("0MB"):
    ...     room()
    Room(bytes=0, words='0 MB that memory_limit=0MB leaves')
    """
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def room() -> Room:
    """Tell what may be taken now."""
    limit = _LIMIT.get()
    if limit is not None:
        left = max(0, check_size("memory_limit", limit) - (in_use() or 0))
        return Room(left, f"{as_text(left)} that memory_limit={limit} leaves")
    left_over = available()
    return Room(left_over, f"{as_text(left_over)} of memory available")


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Say in a sentence that `what` does not fit, where memory runs out nevertheless."""
    try:
        yield
    except MemoryError as error:
        raise InputError(_does_not_fit(what)) from error
    except RuntimeError as error:
        if "allocate" not in str(error):  # as torch says it
            raise
        raise InputError(_does_not_fit(what)) from error


def _does_not_fit(what: str) -> str:
    left = room()
    known = f", {left.words}" if left.bytes < math.inf else ""
    return f"{what} is not accepted: there is not enough memory for it{known}"


def as_text(count: float) -> str:
    """Write a number of bytes as people say it.

    >>> as_text(9.6e9), as_text(412_345_678), as_text(1_200)
    ('9.6 GB', '412 MB', '0.0012 MB')
    """
    if count >= 1e9:
        return f"{count / 1e9:,.1f} GB"
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 or not count else f"{count / 1e6:.2g} MB"


def available_cores() -> int:
    """Count the cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def in_use() -> int | None:
    """Return the memory that this process uses, None where the system does not say."""
    with suppress(OSError):
        return _pages(1)
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return None


def available() -> float:
    """Return what this process can still take of the machine, of its groups (containers) and of its own limit."""
    return max(0, min([_of_machine(), *_of_groups(), _of_process()]))


def _of_machine() -> float:
    with suppress(OSError, ValueError, LookupError):
        lines = (line.split() for line in (PROC / "meminfo").read_text().splitlines())
        return 1024 * next(int(words[1]) for words in lines if words[0] == "MemAvailable:")
    with suppress(OSError, ValueError, AttributeError):  # elsewhere: what is built in, as far as that is known
        return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE - (in_use() or 0)
    return math.inf


def _of_groups() -> Iterator[int]:
    """Yield what every group that this process belongs to leaves, cache that can be dropped included."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for path in (line.removeprefix("0::/") for line in lines if line.startswith("0::/")):
        group = CGROUPS / path
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):
                most, used = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
                yield most - used + _cache(folder)
            if folder == CGROUPS:
                break


def _cache(group: Path) -> int:
    with suppress(OSError, ValueError, LookupError):
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(counts["inactive_file"])
    return 0


def _of_process() -> float:
    """Return what `ulimit -v` leaves."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return math.inf if limit == resource.RLIM_INFINITY else limit - _pages(0)
    return math.inf


def _pages(column: int) -> int:
    """Read bytes of this process: 0 for all that is mapped, 1 for what lies in memory."""
    return int((PROC / "self" / "statm").read_text().split()[column]) * mmap.PAGESIZE
