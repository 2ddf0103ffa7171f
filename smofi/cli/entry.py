"""The `smofi` command from its first moment on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import smofi
from smofi.cli.streams import LOSS, complain, lasting_streams, loading, say_interrupted
from smofi.engine.processes.endings import Interrupted, handled


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 2 for anything the user can correct, 1 if it cannot print, 128 + n after signal n."""
    own = arguments is None  # the process is the command's own
    with lasting_streams(afterwards=own):
        try:
            # nothing is left to be said or saved after the command: then a signal may end the process without a word
            with handled(_interrupt, afterwards=signal.SIG_DFL if own else None):
                code = _call(list(sys.argv[1:] if arguments is None else arguments))
        except KeyboardInterrupt as error:
            code = say_interrupted(error.number if isinstance(error, Interrupted) else signal.SIGINT)
        sys.stdout.flush()
        if LOSS.error is None or LOSS.remark:
            return code
        if not isinstance(LOSS.error, BrokenPipeError):  # whoever closes a pipe has seen enough
            complain(f"standard output cannot be written: {LOSS.error.strerror}")
        return code or 1


def _call(given: list[str]) -> int:
    if given == ["--version"]:
        print(smofi.__version__)
        return 0
    with loading():
        from smofi.cli.commands import call
    return call(given)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
