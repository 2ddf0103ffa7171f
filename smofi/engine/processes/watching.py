"""A worker that dies ends the run, even if the first worker is busy and would not notice for a long time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

GRACE = 5.0
"""Seconds that the first worker has to notice by itself, and to say so."""

ExitCode: TypeAlias = Callable[[], int | None]
"""Asks how a worker has ended: its exit code, or minus a signal's number; None while it is running."""

Report: TypeAlias = Callable[[str], None]
"""Tells the user one sentence. Only the command line talks, so it hands this in."""


class Watch:
    """Watches the further workers until it is told to stop."""

    def __init__(self, workers: Sequence[ExitCode], report: Report) -> None:
        self.workers, self.report, self.stopped = workers, report, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Once this returns, no worker is watched any more."""
        self.stopped.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.stopped.wait(0.2):
            for rank, exit_code in enumerate(self.workers, 1):
                code = exit_code()
                if code not in (None, 0) and not self.stopped.wait(GRACE):
                    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                    try:
                        self.report(f"worker {rank + 1} has ended ({how}), so the run cannot go on")
                    finally:  # even if standard error is closed
                        os._exit(1)  # and the other workers notice that
