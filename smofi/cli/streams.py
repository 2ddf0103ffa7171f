"""Standard output and standard error that never end a command: once one cannot be written, it leads nowhere.

A reader may go away (`smofi run | head -1`), a disk may be full, a stream may be closed from the start (`>&-`).
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

from smofi.engine.processes.endings import follows, handled

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Loss:
    """Why standard output is lost, if it is. `remark` says what happens then, where that is no failure."""

    error: OSError | None = None
    remark: str | None = None

    def __call__(self, error: OSError) -> None:
        self.error = error
        if self.remark:
            remark(f"warning: standard output cannot be written ({error.strerror}): {self.remark}")


LOSS = Loss()
"""That of this process's standard output."""


class LastingStream(io.RawIOBase):
    """Writes to a stream for as long as that works. Then its file leads nowhere, for everybody in this process."""

    def __init__(self, under: io.RawIOBase, lost: Callable[[OSError], None]) -> None:
        self.under, self.lost = under, lost

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.under.isatty()

    def fileno(self) -> int:
        return self.under.fileno()

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (written := self.under.write(data)) is None:  # a file that does not wait for its reader: we do
                select.select([], [self.fileno()], [])
            return written
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            self.lost(error)
            return memoryview(data).nbytes


def complain(message: str) -> None:
    """Print a sentence about something that went wrong. It does not begin with the program's name, which is also that
    of a method."""
    remark(f"error: {message}")


def remark(message: str) -> None:
    """Print a sentence that is no part of a command's output."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def lasting_streams(afterwards: bool) -> Iterator[None]:
    """Nothing that is printed in this block can fail, nor `afterwards`. Streams that are not this process's own stay as
    they are."""
    LOSS.error = LOSS.remark = None
    before = sys.stdout, sys.stderr
    _open_missing()
    sys.stdout = _lasting(sys.stdout, sys.__stdout__, LOSS)
    sys.stderr = _lasting(sys.stderr, sys.__stderr__, lambda error: None)
    try:
        yield
    finally:
        sys.stdout.flush()
        if not afterwards:
            sys.stderr.flush()
            sys.stdout, sys.stderr = before


def _open_missing() -> None:
    """Without this, the next file to be opened would take the number of a closed stream, and get what is printed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _lasting(stream: TextIO | None, own: TextIO | None, lost: Callable[[OSError], None]) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if stream is not own or not isinstance(stream, io.TextIOWrapper):
        return stream
    # with python -u, there is no buffer in between
    raw = cast("io.RawIOBase", getattr(stream.buffer, "raw", stream.buffer))
    return io.TextIOWrapper(
        io.BufferedWriter(LastingStream(raw, lost)),
        encoding=stream.encoding,
        errors="replace",  # a terminal that cannot show a character shows a question mark
        line_buffering=stream.line_buffering or stream.write_through,
    )


# --------------------------------------------------------------------------------------------------------------------
# Loading what a command works with, once its arguments are accepted: torch takes seconds.


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
