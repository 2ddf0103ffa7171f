"""The cores of this machine."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Count the cores that this process may use.

    >>> 1 <= available_cores() <= os.cpu_count()
    True
    """
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(allowed(0)) if allowed else os.cpu_count() or 1
