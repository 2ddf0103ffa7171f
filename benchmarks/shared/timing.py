"""Seconds of a call, in one process or in several at once."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

from shared.internals import Alone, Crew, Forked

Found = TypeVar("Found")


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_processes(size: int, work: Callable[[Crew], Found]) -> Found:
    """What `work` returns in the first of `size` processes that all do it; the others have ended when this returns."""
    if size == 1:
        return work(Alone())
    sys.stdout.flush()
    crew = Forked(size)
    crew.fork()
    try:
        found = work(crew)
    except BaseException:
        if crew.rank == 0:
            raise
        traceback.print_exc()
        os._exit(1)
    else:
        if crew.rank > 0:
            os._exit(0)
        return found
    finally:
        crew.end()


def time_alone(crew: Crew, work: Callable[[], object]) -> float:
    """The time of one call in the first process, known to all; the others wait."""
    taken = seconds(work) if crew.rank == 0 else 0.0
    return float(crew.copy(torch.tensor(taken, dtype=torch.float64)))


def time_together(crew: Crew, work: Callable[[], object]) -> float:
    """The time of one call in every process at once, until the last of them is done."""
    crew.copy(torch.zeros(1))
    return seconds(lambda: (work(), crew.sum(torch.zeros(1))))
