"""The processes that share a cohort. Each holds some of the rows; the only way across is the sum over all of them.

Every process runs the same rounds from the same state: a sum leaves the same bits everywhere, so the state stays the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from smofi.errors import SmofiError

PATIENCE = timedelta(minutes=30)
"""How long a worker waits for another that is alive but busy; one that is dead is noticed at once."""


class Crew(Protocol):
    """What the engine asks of its fellow processes."""

    rank: int
    size: int

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of what every process brings, in place."""

    def gather(self, tensor: Tensor, lengths: Sequence[int]) -> Tensor:
        """What every process brings, one after the other; `lengths` says how many rows each has."""

    def copy(self, tensor: Tensor) -> Tensor:
        """What the first process has, in place."""


class Alone:
    """A single process.

    >>> Alone().sum(torch.ones(2)).tolist()
    [1.0, 1.0]
    """

    rank, size = 0, 1

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor, lengths: Sequence[int]) -> Tensor:
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        return tensor


class WorkerGone(SmofiError):
    """Another worker ended, so that this one cannot go on."""


class Workers:
    """The processes of `torch.distributed`: gloo on CPUs, nccl on GPUs."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, tensor: Tensor) -> Tensor:
        self._together(dist.all_reduce, tensor)
        return tensor

    def gather(self, tensor: Tensor, lengths: Sequence[int]) -> Tensor:
        # a sum of blocks that are zero elsewhere: exact, and it asks for no other operation
        whole = tensor.new_zeros(sum(lengths), *tensor.shape[1:])
        start = sum(lengths[: self.rank])
        whole[start : start + len(tensor)] = tensor
        return self.sum(whole)

    def copy(self, tensor: Tensor) -> Tensor:
        self._together(dist.broadcast, tensor, 0)
        return tensor

    def _together(self, operation: object, *arguments: object) -> None:
        try:
            operation(*arguments)  # type: ignore[operator]
        except RuntimeError as error:
            raise WorkerGone(
                f"worker {self.rank + 1} of {self.size} lost touch with another worker, which has ended or was killed "
                f"({str(error).strip().splitlines()[-1][:200]})"
            ) from error


def joined(device: torch.device) -> Crew:
    """The crew that torchrun, or `smofi run --workers`, has put this process into; alone if neither has.

    >>> joined(torch.device("cpu")).size
    1
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Alone()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    return Workers()


def deal(steps: Sequence[int], hands: int) -> list[list[int]]:
    """Rows for each process, so that at every step the processes have as many active rows as one another, or one more.

    Longest first, in turns that go back and forth.

    >>> deal([5, 1, 4, 2, 3], hands=2)
    [[0, 3, 4], [1, 2]]
    """
    order = sorted(range(len(steps)), key=lambda row: (-steps[row], row))
    dealt: list[list[int]] = [[] for _ in range(hands)]
    for place, row in enumerate(order):
        turn, seat = divmod(place, hands)
        dealt[seat if turn % 2 == 0 else hands - 1 - seat].append(row)
    return [sorted(rows) for rows in dealt]
