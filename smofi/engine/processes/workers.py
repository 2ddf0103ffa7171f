"""The workers of a run: how many, how they are started, and none left behind.

    smofi run ... --workers 2        this process is the first worker, and starts the second
    torchrun ... -m smofi run ...    torchrun has started them all; each finds out from its environment

The first worker talks, writes the run's folder, and decides how long it goes on. The others follow it, and end with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch

from smofi.engine.processes.crew import Crew
from smofi.engine.processes.forking import Forking
from smofi.engine.processes.spawning import Spawning, end_with_the_first
from smofi.errors import check_choice, check_count, refuse


class Team(Protocol):
    """The workers of a run."""

    @property
    def crew(self) -> Crew | None:
        """How they meet; None if that is to be found out from the environment."""

    def launch(self, follow: Callable[[], None]) -> None:
        """Start the further ones, which then `follow`, if they have inherited what there is to follow.

        To be called when nothing can be refused any more, so that a refusal is quick and said once.
        """

    def end(self) -> None:
        """End them."""


class Complete:
    """The workers are all there: this one alone, or those that torchrun has started."""

    crew = None

    def launch(self, follow: Callable[[], None]) -> None: ...
    def end(self) -> None: ...


def worker_count(asked: int | None, device: str, useful: int) -> int:
    """How many workers a run gets: as many as asked for, or as SMOFI_WORKERS says, or as torchrun has started.

    Otherwise one per core that this process may use, or per GPU, but no more than the `useful` ones.

    >>> worker_count(3, "cpu", useful=1), worker_count(None, "cpu", useful=1)
    (3, 1)
    """
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    if asked is None and "SMOFI_WORKERS" in os.environ:
        asked = int(os.environ["SMOFI_WORKERS"])
    if asked is not None:
        return check_count("workers", asked, high=4096)
    if useful == 1:
        return 1
    if torch.device(device).type == "cuda":
        return max(1, torch.cuda.device_count())
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    return max(1, min(cores, useful))


def follows() -> bool:
    """Whether this process follows another one: neither prints nor writes."""
    return int(os.environ.get("RANK", "0")) > 0


def own_device(device: str) -> str:
    """The device of this worker: where there are several GPUs, one each."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


@contextmanager
def workers(count: int, device: str, command: Sequence[str]) -> Iterator[Team]:
    """As many workers, the further ones still to be launched; when this block ends, so have they."""
    if follows():
        end_with_the_first()
    team = _team(count, device, command)
    try:
        yield team
    finally:
        team.end()


def _team(count: int, device: str, command: Sequence[str]) -> Team:
    if count == 1 or "WORLD_SIZE" in os.environ:
        return Complete()
    return Forking(count) if start_by(device) == "fork" else Spawning(count, command)


def start_by(device: str) -> str:
    """How further workers are started: by a fork, or where that cannot be by the same command; SMOFI_START has its say.

    A fork has neither the GPUs of the process before nor torch's further threads, and is not safe on macOS.

    >>> start_by("cuda")
    'spawn'
    """
    possible = sys.platform == "linux" and torch.device(device).type == "cpu" and torch.get_num_threads() == 1
    way = os.environ.get("SMOFI_START", "fork" if possible else "spawn")
    if check_choice("SMOFI_START", way, ("fork", "spawn")) == "fork" and not possible:
        refuse("SMOFI_START", way, "spawn, other than on Linux with --device cpu and --threads 1")
    return way
