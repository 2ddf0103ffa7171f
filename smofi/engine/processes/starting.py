"""The workers of a run: how many there are, how they are started, and that none is left behind.

    smofi run ... --workers 2        this process is the first worker, and starts the second
    torchrun ... -m smofi run ...    torchrun has started all of them; each reads its rank from its environment

The first worker talks, writes the run folder, and decides when to stop. The others follow it, and end with it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch

from smofi.engine.processes.counting import power_of_two
from smofi.engine.processes.endings import handled
from smofi.engine.processes.forking import ForkLauncher
from smofi.engine.processes.spawning import SpawnLauncher, end_with_the_first, started_by_us
from smofi.engine.processes.watching import Report
from smofi.engine.processes.workers import DistributedWorkers, WorkerGone, Workers, joined
from smofi.errors import check_choice, check_count, refuse
from smofi.memory import as_text, available_cores, room

DEFAULT = "SMOFI_WORKERS"
"""The environment variable with the number of workers of runs that do not say it."""

LEAST_MEMORY = {"fork": 25_000_000, "spawn": 200_000_000}
"""Bytes that a worker takes for itself, however small the model: a forked one shares the program and the data."""


class Launcher(Protocol):
    """Starts the further workers of a run, and ends them."""

    @property
    def workers(self) -> Workers | None:
        """All workers of the run, as the engine uses them; None if the environment tells."""

    def launch(self, follow: Callable[[], None]) -> None:
        """Start the further workers. Those that are forked have inherited the runs, and call `follow`.

        To be called when nothing can be refused any more, so that a refusal is quick and said once.
        """

    def lost(self) -> str | None:
        """How one of them has ended, if that is known."""

    def end(self) -> None:
        """End the further workers."""


class NoLauncher:
    """This process is the only worker."""

    workers = None

    def launch(self, follow: Callable[[], None]) -> None: ...
    def lost(self) -> None: ...
    def end(self) -> None: ...


class TorchrunLauncher:
    """All workers have been started, by torchrun."""

    def __init__(self, device: str) -> None:
        self.workers = joined(torch.device(own_device(device)))

    def launch(self, follow: Callable[[], None]) -> None:
        meet(self.workers)

    def lost(self) -> None: ...
    def end(self) -> None: ...


def worker_count(requested: int | None, device: str, useful: int) -> int:
    """How many workers a run has: as many as requested, or as SMOFI_WORKERS says, or as torchrun has started.

    Otherwise one per core that this process may use, or per GPU, but no more than the `useful` ones; and of these a
    power of two, since then all machines give the same bits.

    >>> worker_count(3, "cpu", useful=1), worker_count(None, "cpu", useful=1)
    (3, 1)
    """
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    if requested is None and (default := os.environ.get(DEFAULT)):
        requested = check_count(DEFAULT, int(default) if default.isdecimal() else default, high=4096)
    if requested is not None:
        return _within_memory(check_count("workers", requested, high=4096), device)
    available = torch.cuda.device_count() if torch.device(device).type == "cuda" else available_cores()
    return power_of_two(max(1, min(available, useful)))


def _within_memory(workers: int, device: str) -> int:
    """The number of workers, unless memory is too small for them whatever they compute."""
    each, left = LEAST_MEMORY[start_by(device)], room()
    if workers > 1 and not left.holds((workers - 1) * each):
        arithmetic = f"{workers} workers take at least {as_text(each)} each"
        refuse("workers", workers, f"what fits into the {left.words}, but {arithmetic}")
    return workers


def own_device(device: str) -> str:
    """The device of this worker: where there are several GPUs, one each."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


@contextmanager
def workers(count: int, device: str, command: Sequence[str], report: Report, report_loss: Report) -> Iterator[Launcher]:
    """What starts `count` workers, this process included. All of them have ended when this block ends.

    `report` tells the user when a worker fails, `report_loss` how one has ended without which the run cannot go on.
    """
    if started_by_us():
        end_with_the_first()
    launcher = _launcher(count, device, command, report, report_loss)
    try:
        yield launcher
    finally:
        launcher.end()


def _launcher(count: int, device: str, command: Sequence[str], report: Report, report_loss: Report) -> Launcher:
    if count == 1:
        return NoLauncher()
    if "WORLD_SIZE" in os.environ:
        return TorchrunLauncher(device)
    if start_by(device) == "fork":
        return ForkLauncher(count, report, report_loss)
    return SpawnLauncher(count, command, report_loss)


@contextmanager
def led_by_the_first(workers: Workers) -> Iterator[None]:
    """What a further worker does, once it has met the others: signals are for the first, which may finish the round.

    The first one may end as it was told to: after a signal, that is no loss.
    """
    meet(workers)
    told: list[int] = []
    with handled(lambda number, frame: told.append(number)):
        try:
            yield
        except WorkerGone:
            if not told:
                raise


def meet(workers: Workers) -> None:
    """Wait for all workers. Nothing is lost yet, and torch waits without Python noticing a signal: it ends the process
    at once."""
    if isinstance(workers, DistributedWorkers):
        with handled(signal.SIG_DFL):
            workers.meet()


def start_by(device: str) -> str:
    """How further workers are started: "fork" where that works, otherwise "spawn", the same command again.

    A forked process cannot use the parent's GPUs or torch's further threads, and forking is not safe on macOS.
    SMOFI_START overrides the choice.

    >>> start_by("cuda")
    'spawn'
    """
    possible = sys.platform == "linux" and torch.device(device).type == "cpu" and torch.get_num_threads() == 1
    method = os.environ.get("SMOFI_START", "fork" if possible else "spawn")
    if check_choice("SMOFI_START", method, ("fork", "spawn")) == "fork" and not possible:
        refuse("SMOFI_START", method, "spawn, other than on Linux with --device cpu and --threads 1")
    return method
