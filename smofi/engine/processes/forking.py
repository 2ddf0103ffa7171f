"""Workers forked from the first one, when all is prepared: they have its data and its runs, and nothing to load.

They are as silent as if they were not there: no output, no files, and no signal but the last reaches them. They end
with the first one, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from smofi.engine.processes.crew import WorkerGone
from smofi.engine.processes.forked import Forked
from smofi.engine.processes.watching import Watch
from smofi.errors import SmofiError

ENDINGS = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""Signals that end a run: the first worker decides how, and may want to finish the round."""

PR_SET_PDEATHSIG = 1


class Forking:
    """Further workers by `fork`."""

    def __init__(self, count: int) -> None:
        self.crew = Forked(count)
        self.watch: Watch | None = None

    def launch(self, follow: Callable[[], None]) -> None:
        first = os.getpid()
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # and so they stay in the others
        try:
            self.crew.fork()
            if self.crew.rank > 0:
                _follow_and_exit(follow, first)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        self.watch = Watch([partial(_fate, child) for child in self.crew.children])

    def end(self) -> None:
        if self.watch:
            self.watch.stop()
        self.crew.end()


def _follow_and_exit(follow: Callable[[], None], first: int) -> NoReturn:
    """What a forked worker does; it never gets back into what the first one was doing."""
    code = 1
    try:
        _step_back(first)
        follow()
        code = 0
    except WorkerGone:
        pass  # the first one says so, if it is there
    except SmofiError as error:
        sys.stderr.write(f"smofi: {error}\n")
    except BaseException:
        traceback.print_exc()
    finally:  # even if nobody hears what was said
        os._exit(code)


def _step_back(first: int) -> None:
    """Leave the terminal to the first worker, and die with it."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != first:  # it was quicker
        os._exit(1)
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)


def _fate(child: int) -> int | None:
    """How a child has ended, without taking notice for good."""
    found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
