"""A worker that dies ends the run, even if the first one is busy and would not notice for long."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence

LINGER = 5.0
"""Seconds that the first worker is given to notice by itself, and to say so."""

Fate = Callable[[], int | None]
"""How a worker has ended, by its exit code or by minus a signal's number; None while it has not."""


class Watch:
    """Looks after the further workers until it is told to stop."""

    def __init__(self, workers: Sequence[Fate]) -> None:
        self.workers, self.over = workers, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Nobody is watched any more when this returns."""
        self.over.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.over.wait(0.2):
            for rank, fate in enumerate(self.workers, 1):
                code = fate()
                if code not in (None, 0) and not self.over.wait(LINGER):
                    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                    try:
                        sys.stderr.write(f"smofi: worker {rank + 1} has ended ({how}), so the run cannot go on\n")
                    finally:  # even if nobody hears it
                        os._exit(1)  # and the others notice that
