"""The `smofi` command from its first moment on: its streams, which never end it, signals, and exit codes."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import smofi
from smofi.engine.processes.endings import Interrupted, follows, handled

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 2 for anything the user can correct, 1 if it cannot print, 128 + n after signal n."""
    own = arguments is None  # the process is the command's own
    if own:
        _make_streams_last()
    LOST.error, LOST.remark = None, ""
    try:
        # nothing is left to be said or saved after the command: then a signal may end the process without a word
        with handled(_interrupt, afterwards=signal.SIG_DFL if own else None):
            given, code = list(sys.argv[1:] if arguments is None else arguments), 0
            if given == ["--version"]:
                print(smofi.__version__)
            else:
                with loading():
                    from smofi.cli.commands import call
                code = call(given)
    except KeyboardInterrupt as error:
        code = _say_interrupted(error.number if isinstance(error, Interrupted) else signal.SIGINT)
    sys.stdout.flush()
    return _code_after(LOST, code)


def _code_after(lost: LostOutput, code: int) -> int:
    """Say that standard output was lost, where nothing went on without it."""
    if lost.error is None or lost.remark:
        return code
    if not isinstance(lost.error, BrokenPipeError):  # whoever closes a pipe has seen enough
        complain(f"standard output cannot be written: {lost.error.strerror}")
    return code or 1


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


@contextmanager
def loading() -> Iterator[None]:
    """Let signals end the process at once while modules are imported, where an exception would get lost."""

    def exit_at_once(number: int, frame: FrameType | None) -> NoReturn:
        os._exit(_say_interrupted(number))

    with handled(exit_at_once):
        yield


def _say_interrupted(number: int) -> int:
    if not follows():
        remark("Interrupted.")
    return 128 + number


def complain(message: str) -> None:
    """Print a sentence about something that went wrong. It does not begin with the program's name, which is also that
    of a method."""
    remark(f"error: {message}")


def remark(message: str) -> None:
    """Print a sentence that is no part of a command's output."""
    print(message, file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------------------------------
# A reader goes away (`smofi run | head -1`), a disk is full, a stream is closed from the start (`>&-`): it ends the
# display, not the run.


@dataclass
class LostOutput:
    """Keep the error that ended standard output. `remark` says what goes on without it, where that is no failure."""

    error: OSError | None = None
    remark: str = ""


LOST = LostOutput()


class Lasting(io.FileIO):
    """A standard stream that leads nowhere, for everybody in this process, once it cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (written := super().write(data)) is None:  # a file that does not wait for its reader: we do
                select.select([], [self], [])
            return written
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self.fileno() == 1:
                LOST.error = error
                if LOST.remark:
                    remark(f"warning: standard output cannot be written ({error.strerror}): {LOST.remark}")
            return memoryview(data).nbytes


def _make_streams_last() -> None:
    # or else the next file to be opened would take the number of a closed stream, and get what is printed
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        before = getattr(sys, name)
        lasting = io.TextIOWrapper(
            io.BufferedWriter(Lasting(number, "w", closefd=False)),
            encoding=before.encoding if before else "utf-8",
            errors="replace",  # a terminal that cannot show a character shows a question mark
            line_buffering=before is None or before.line_buffering or before.write_through,
        )
        setattr(sys, name, lasting)
