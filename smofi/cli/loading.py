"""Loading what a command works with, once its arguments are accepted: torch takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from smofi.cli.streams import remark
from smofi.engine.processes.endings import follows, handled


@contextmanager
def loading() -> Iterator[None]:
    """Signals end the process at once: an exception would get lost in what is being imported."""
    with handled(_exit_at_once):
        yield


def say_interrupted(number: int) -> int:
    """The exit code after a signal; the first process also says that it was interrupted."""
    if not follows():
        remark("Interrupted.")
    return 128 + number


def _exit_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(say_interrupted(number))
