"""Measurements kept in the user's cache: measured once, so that the next run decides alike, and at once.

SMOFI_DATA (or ~/.cache/smofi)/measured/<circumstances>.json
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from smofi.data.cache import data_home
from smofi.files import sealed, unsealed, write_atomically


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one client by itself, of two at once and of all at once; or why they cannot be computed at once."""

    loop: float = math.inf
    two: float = math.inf
    every: float = math.inf
    obstacle: str | None = None


def measured_before(circumstances: str, measure: Callable[[], StepTimes]) -> StepTimes:
    """What was measured under these circumstances before, or what is measured now."""
    path = data_home() / "measured" / f"{hashlib.sha256(circumstances.encode()).hexdigest()[:32]}.json"
    if (found := _found(path, circumstances)) is not None:
        return found
    times = measure()
    with suppress(OSError):  # it cannot be written: then it is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, sealed({"measured": asdict(times), "of": circumstances}))
    return times


def _found(path: Path, circumstances: str) -> StepTimes | None:
    """What is in a file, None if it is damaged, was measured under other circumstances, or is not there."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        kept = unsealed(path.read_bytes()) if path.is_file() else {}
        times = StepTimes(**kept["measured"])
        seconds = all(one > 0 for one in (times.loop, times.two, times.every))
        if seconds and isinstance(times.obstacle, str | None) and kept["of"] == circumstances:
            return times
    return None
