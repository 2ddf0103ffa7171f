"""Memory that one step frees is kept for the next, instead of going back to the system and being fetched again."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The numbers of two settings of glibc's mallopt: from how much free memory on it gives some back, and from which size
on it fetches a block by itself."""

NEVER, LARGEST = 2**31 - 1, 32 * 2**20
"""The most that either can be."""


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed, unless the user has set its thresholds. Returns whether it does.

    A training step frees all its activations at its end, and glibc would give them back: every step would have them
    mapped and zeroed anew, page by page, for small convolutional networks a tenth to a quarter of its time. Peak
    memory does not change.
    """
    if os.environ.keys() & {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}:
        return False
    if "_threshold=" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # as on Windows
        return False
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(TRIM_THRESHOLD, NEVER) and library.mallopt(MMAP_THRESHOLD, LARGEST))
