"""A worker that dies ends the run, even if the first worker is busy and would not notice for a long time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

GRACE = 5.0
"""Seconds that the first worker has to notice by itself, and to say so."""

SOON = 1.0
"""Seconds until the end of a process is known that has closed its connections."""

ExitCode: TypeAlias = Callable[[], int | None]
"""Asks how a worker has ended: its exit code, or minus a signal's number; None while it is running."""

Report: TypeAlias = Callable[[str], None]
"""Tells the user one sentence. Only the command line talks, so it hands this in."""


class Watch:
    """Watches the further workers until it is told to stop; `report_loss` is told how one has ended."""

    def __init__(self, workers: Sequence[ExitCode], report_loss: Report) -> None:
        self.workers, self.report_loss, self.stopped = workers, report_loss, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Once this returns, no worker is watched any more."""
        self.stopped.set()
        self.thread.join()

    def lost(self, within: float = SOON) -> str | None:
        """How a worker has ended, if one has; or ends within these seconds."""
        until = time.monotonic() + within
        while True:
            for rank, exit_code in enumerate(self.workers, 1):
                if (code := exit_code()) not in (None, 0):
                    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                    return f"worker {rank + 1} has ended ({how})"
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)

    def _look(self) -> None:
        while not self.stopped.wait(0.2):
            if (how := self.lost(within=0)) and not self.stopped.wait(GRACE):
                try:
                    self.report_loss(how)
                finally:
                    os._exit(1)  # and the other workers notice that
