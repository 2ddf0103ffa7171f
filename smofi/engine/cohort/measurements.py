"""Measurements kept in the user's cache: measured once, so that the next run decides alike, and at once.

SMOFI_DATA (or ~/.cache/smofi)/measured/<circumstances>.json
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from smofi.data.cache import data_home
from smofi.files import write_atomically


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
    with suppress(OSError, ValueError, KeyError, TypeError):
        return StepTimes(**json.loads(path.read_text())["measured"])
    times = measure()
    with suppress(OSError):  # it cannot be written: then it is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"measured": asdict(times), "of": circumstances}).encode())
    return times
