"""Memory that one step frees is kept for the next, instead of going back to the system and being fetched again."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc's mallopt calls them."""

NEVER, LARGE = 2**31 - 1, 32 * 2**20
"""The largest numbers that glibc takes: nothing is given back, and only tensors above 32 MiB are fetched each time."""


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed; returns whether it does: not with settings of one's own, nor without glibc.

    By default glibc gives back a free end of its heap and fetches large blocks singly. A training step frees all its
    activations at the end, so that every step has them mapped and zeroed anew, page by page: for small convolutional
    networks a tenth to a third of the time.
    """
    own_settings = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if own_settings or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # nothing of the kind, as on Windows
        return False
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(TRIM_THRESHOLD, NEVER) and library.mallopt(MMAP_THRESHOLD, LARGE))
