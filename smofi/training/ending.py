"""Ctrl-C in Python: the run ends after the current round, and what there is comes back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from smofi.engine.events import Event, TickDone
from smofi.engine.processes.endings import in_turn
from smofi.engine.run import Run
from smofi.errors import TrainingWarning


@contextmanager
def finishing_the_round(run: Run) -> Iterator[None]:
    """The first Ctrl-C ends the run after the current round, a second one raises KeyboardInterrupt at once.

    Only in the main thread, where Python hands out signals, and only where Ctrl-C would raise KeyboardInterrupt: what
    a program, or the `smofi` command, has decided about it stays as it is.
    """
    own_thread = threading.current_thread() is not threading.main_thread()
    if own_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    run.interrupted = run.cut_short = False  # an earlier one is no reason to stop again
    callback, announced = run.emit, False

    def interrupt(number: int, frame: FrameType | None) -> None:
        run.interrupt()

    def announce(event: Event) -> None:
        nonlocal announced
        callback(event)
        if run.interrupted and not announced and isinstance(event, TickDone):
            announced = True
            with suppress(TrainingWarning):  # where warnings are errors, this one would lose the round
                run.warn(f"interrupted: round {event.round} is finished first; interrupt again to stop at once")

    run.emit = announce
    leads = run.workers.rank == 0  # which tells further workers when to stop
    try:
        signal.signal(signal.SIGINT, in_turn(interrupt, signal.default_int_handler if leads else interrupt))
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run.emit = callback
