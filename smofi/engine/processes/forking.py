"""Workers forked from the first one when all is prepared: they share its data and its runs, and load nothing.

They print nothing and write no files, and no signal except SIGKILL reaches them. They end with the first worker,
however it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from smofi.engine.processes.endings import ENDINGS
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.watching import Report, Watch
from smofi.engine.processes.workers import WorkerGone
from smofi.errors import SmofiError

PR_SET_PDEATHSIG = 1


class ForkLauncher:
    """Starts further workers by `fork`; what goes wrong in them is reported, and so is the loss of one."""

    def __init__(self, count: int, report: Report, report_loss: Report) -> None:
        self.workers = ForkedWorkers(count)
        self.report, self.report_loss = report, report_loss
        self.watch: Watch | None = None

    def launch(self, follow: Callable[[], None]) -> None:
        first = os.getpid()
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # the further workers inherit this
        try:
            self.workers.fork()
            if self.workers.rank > 0:
                _follow_and_exit(follow, first, self.report)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        self.watch = Watch([partial(_exit_code, child) for child in self.workers.children], self.report_loss)

    def lost(self) -> str | None:
        return self.watch.lost() if self.watch else None

    def end(self) -> None:
        if self.watch:
            self.watch.stop()
        self.workers.end()


def _follow_and_exit(follow: Callable[[], None], first: int, report: Report) -> NoReturn:
    """What a forked worker does; it never returns to what the first worker was doing when it forked."""
    code = 1
    try:
        _detach(first)
        follow()
        code = 0
    except WorkerGone:
        pass  # the first worker says so, if it is alive
    except SmofiError as error:
        report(str(error))
    except BaseException:
        report(f"a worker failed\n{traceback.format_exc().rstrip()}")
    finally:  # even if standard error is closed
        os._exit(code)


def _detach(first: int) -> None:
    """Leave the terminal to the first worker, and die with it."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != first:  # the first worker ended before prctl
        os._exit(1)
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)


def _exit_code(child: int) -> int | None:
    """How a child has ended, if it has; `WNOWAIT` leaves it to be waited for."""
    found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
