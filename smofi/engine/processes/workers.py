"""The workers of a run: processes that share a cohort. Each has some of the rows, and they meet in sums over all rows.

Every worker runs the same rounds from the same state: a sum leaves the same bits everywhere, so the state stays alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from smofi.engine.processes.network import interface_towards
from smofi.errors import SmofiError

TIMEOUT = timedelta(minutes=30)
"""How long a worker waits for another that is alive but busy; one that is dead is noticed at once."""


class Workers(Protocol):
    """All workers of a run, as one of them, number `rank`, sees them."""

    rank: int
    size: int

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all workers, in place."""

    def copy(self, tensor: Tensor) -> Tensor:
        """What the first worker has, in place."""


class OneWorker:
    """A run in a single process.

    >>> OneWorker().sum(torch.ones(2)).tolist()
    [1.0, 1.0]
    """

    rank, size = 0, 1

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        return tensor


class WorkerGone(SmofiError):
    """Another worker ended, so that this one cannot go on."""

    def __init__(self, rank: int, size: int, error: Exception) -> None:
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1][:200]
        super().__init__(
            f"worker {rank + 1} of {size} lost contact with another worker, which has ended or was killed ({reason})"
        )


class DistributedWorkers:
    """The processes of `torch.distributed`, gloo on CPUs and nccl on GPUs; they connect when they first exchange
    something."""

    def __init__(self, rank: int, size: int, backend: str) -> None:
        self.rank, self.size, self.backend = rank, size, backend

    def sum(self, tensor: Tensor) -> Tensor:
        self._together(dist.all_reduce, tensor)
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        self._together(dist.broadcast, tensor, 0)
        return tensor

    def _together(self, operation: Callable[..., Any], *arguments: Any) -> None:
        try:
            if not dist.is_initialized():
                self._join()
            operation(*arguments)
        except RuntimeError as error:
            raise WorkerGone(self.rank, self.size, error) from error

    def _join(self) -> None:
        """Meet the others. Left to itself, gloo takes the network that the machine's name points to, if to any."""
        if "gloo" in self.backend and (network := interface_towards(os.environ.get("MASTER_ADDR", "127.0.0.1"))):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", network)
        dist.init_process_group(self.backend, rank=self.rank, world_size=self.size, timeout=TIMEOUT)


def joined(device: torch.device) -> Workers:
    """The workers that this process is one of, as torchrun or `smofi run --workers` started them, or itself alone.

    >>> joined(torch.device("cpu")).size
    1
    """
    rank, size = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    return OneWorker() if size == 1 else DistributedWorkers(rank, size, backend)


def deal(steps: Sequence[int], workers: int) -> list[list[int]]:
    """Rows for each process, so that at every step their numbers of active rows differ by one at most.

    The longest first, dealt out in turns that go back and forth.

    >>> deal([5, 1, 4, 2, 3], workers=2)
    [[0, 1, 3], [2, 4]]
    """
    order = sorted(range(len(steps)), key=lambda row: (-steps[row], row))
    dealt: list[list[int]] = [[] for _ in range(workers)]
    for place, row in enumerate(order):
        turn, seat = divmod(place, workers)
        dealt[seat if turn % 2 == 0 else workers - 1 - seat].append(row)
    return [sorted(rows) for rows in dealt]
