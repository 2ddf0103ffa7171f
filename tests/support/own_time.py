"""Time as a process has it that may have to wait for its turn on a busy machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

TICK = 0.01


@contextmanager
def own_time() -> Iterator[Callable[[], float]]:
    """Asked, it says how many seconds this process has had: real ones, but a tick that took more than twice as long
    counts as two, for the machine did something else."""
    stop, had = threading.Event(), [0.0]

    def count() -> None:
        before = monotonic()
        while not stop.is_set():
            sleep(TICK)
            now = monotonic()
            had[0] += min(now - before, 2 * TICK)
            before = now

    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield lambda: had[0]
    finally:
        stop.set()
        counting.join()
