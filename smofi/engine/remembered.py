"""Measurements kept in the user's cache: measured once, so that the next run decides alike, and at once.

SMOFI_DATA (or ~/.cache/smofi)/measured/<circumstances>.json
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress

from smofi.data.cache import data_home
from smofi.engine.checkpoint import write_atomically


def remembered(circumstances: str, count: int, measure: Callable[[], list[float]]) -> list[float]:
    """The `count` numbers that were measured under these circumstances before, or what is measured now."""
    path = data_home() / "measured" / f"{hashlib.sha256(circumstances.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = [float(seconds) for seconds in json.loads(path.read_text())["seconds"]]
        if len(kept) == count:
            return kept
    measured = measure()
    kept = [seconds if math.isfinite(seconds) else 1e9 for seconds in measured]
    with suppress(OSError):  # nobody may write there: then it is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"seconds": kept, "of": circumstances}).encode())
    return kept
