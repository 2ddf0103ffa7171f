"""Signals that end a run: Ctrl-C, a polite kill, and a closed terminal where there is such a signal."""

from __future__ import annotations

import signal

ENDINGS: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The first worker decides how the run ends, and may want to finish the round."""
