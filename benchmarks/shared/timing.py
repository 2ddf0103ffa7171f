"""Seconds of a call, in one process or in several at once."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

from shared.internals import ForkedWorkers, OneWorker, Workers

Found = TypeVar("Found")


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_processes(size: int, work: Callable[[Workers], Found]) -> Found:
    """What `work` returns in the first of `size` processes that all do it; the others have ended when this returns."""
    if size == 1:
        return work(OneWorker())
    sys.stdout.flush()
    workers = ForkedWorkers(size)
    workers.fork()
    try:
        found = work(workers)
    except BaseException:
        if workers.rank == 0:
            raise
        traceback.print_exc()
        os._exit(1)
    else:
        if workers.rank > 0:
            os._exit(0)
        return found
    finally:
        workers.end()


def time_alone(workers: Workers, work: Callable[[], object]) -> float:
    """The time of one call in the first process, known to all; the others wait."""
    taken = seconds(work) if workers.rank == 0 else 0.0
    return float(workers.copy(torch.tensor(taken, dtype=torch.float64)))


def time_together(workers: Workers, work: Callable[[], object]) -> float:
    """The time of one call in every process at once, until the last of them is done."""
    workers.copy(torch.zeros(1))
    return seconds(lambda: (work(), workers.sum(torch.zeros(1))))
