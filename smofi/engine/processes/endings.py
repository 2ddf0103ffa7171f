"""Signals that end a run: Ctrl-C, a polite kill, and a closed terminal where there is such a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

ENDINGS: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The first worker decides how the run ends, and may want to finish the round."""

SAME_SIGNAL = 2.0
"""Seconds: a signal to all processes comes again from torchrun, which hands on its own."""

Handling: TypeAlias = Callable[[int, "FrameType | None"], Any]
Handler: TypeAlias = Handling | int


class Interrupted(KeyboardInterrupt):
    """One of these signals has come: `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def follows() -> bool:
    """Whether this process follows another one: neither prints nor writes."""
    return int(os.environ.get("RANK", "0")) > 0


def in_turn(first: Handling, further: Handling) -> Handling:
    """A handler that does the one at the first signal, the other at any further one."""
    came: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if len(came) == 1:
            first(number, frame)
        elif "TORCHELASTIC_RUN_ID" not in os.environ or came[-1] - came[0] > SAME_SIGNAL:
            further(number, frame)

    return handle


@contextmanager
def handled(handler: Handler, afterwards: Handler | None = None) -> Iterator[None]:
    """These signals go to `handler`, then `afterwards` or to where they went before.

    Python hands signals to the main thread alone. One that `nohup` has told the process to ignore stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDINGS}
    ours = {one: to for one, to in before.items() if one == signal.SIGINT or to not in (signal.SIG_IGN, None)}
    try:
        for number in ours:
            signal.signal(number, handler)
        yield
    finally:
        for number, to in ours.items():
            signal.signal(number, to if afterwards is None else afterwards)
