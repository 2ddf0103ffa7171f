"""The workers of a run: processes that share a cohort. Each has some of the rows, and they meet in sums over all rows.

Every worker runs the same rounds from the same state: a sum leaves the same bits everywhere, so the state stays alike.
Workers add what they bring in the order of the tree, so that its bits do not depend on how many they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from smofi.engine.processes.network import interface_towards
from smofi.engine.processes.tree import mirrored
from smofi.errors import SmofiError

MOST_EXCHANGED = 2**22
"""Numbers in a message, so that what is received takes little memory."""

SMALL = 2**20
"""Bytes; of larger tensors, a copy would take longer than one more exchange."""

TIMEOUT = timedelta(minutes=30)
"""How long a worker waits for another that is alive but busy; one that is dead is noticed at once."""


class Workers(Protocol):
    """All workers of a run, as one of them, number `rank`, sees them."""

    rank: int
    size: int

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all workers, in place; one that has nothing to add brings `tree.NOTHING`."""

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
        # gloo names a line of its source, then says what happened, then what may be the cause
        said = re.sub(r"^\[\S+\] ", "", str(error).strip()).split(". ")[0]
        reason = (said or type(error).__name__).splitlines()[-1][:200]
        super().__init__(
            f"worker {rank + 1} of {size} lost contact with another worker, which has ended or was killed ({reason})"
        )


class DistributedWorkers:
    """The processes of `torch.distributed`, gloo on CPUs and nccl on GPUs; they connect when they first exchange
    something."""

    def __init__(self, rank: int, size: int, backend: str) -> None:
        self.rank, self.size, self.backend = rank, size, backend

    def meet(self) -> None:
        """Connect, which waits for all of them."""
        with self._connected():
            pass

    def sum(self, tensor: Tensor) -> Tensor:
        """Pairs of workers exchange what they have, in the order of the tree: then every one has every fold."""
        flat = tensor.contiguous().view(-1)
        with self._connected():
            for first in range(0, len(flat), MOST_EXCHANGED):
                self._sum(flat[first : first + MOST_EXCHANGED])
        if flat.data_ptr() != tensor.data_ptr():
            tensor.copy_(flat.view(tensor.shape))
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        with self._connected():
            dist.broadcast(tensor, 0)
        return tensor

    def _sum(self, piece: Tensor) -> None:
        received = torch.empty_like(piece)
        places = 1 << (self.size.bit_length() - 1)  # the largest power of two
        extra = mirrored(self.rank, 2 * places)
        if self.rank >= places:  # it lies on another place from the first fold on, and gets the sum from there
            dist.send(piece, extra)
            dist.recv(piece, extra)
            return
        if extra < self.size:
            dist.recv(received, extra)
            piece += received
        while places > 1:
            other = self.rank ^ (places - 1)
            both = dist.P2POp(dist.isend, piece, other), dist.P2POp(dist.irecv, received, other)
            for under_way in dist.batch_isend_irecv(list(both)):
                under_way.wait()
            piece += received
            places //= 2
        if extra < self.size:
            dist.send(piece, extra)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            if not dist.is_initialized():
                self._join()
            yield
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


def sum_each(workers: Workers, tensors: Sequence[Tensor]) -> None:
    """The sum over all workers of each of these tensors of one type, in place: one exchange for all, if they are small.

    >>> sum_each(OneWorker(), [torch.ones(2), torch.ones(1)])
    """
    if len(tensors) == 1 or workers.size == 1 or sum(tensor.nbytes for tensor in tensors) > SMALL:
        for tensor in tensors:
            workers.sum(tensor)
        return
    together = workers.sum(torch.cat([tensor.flatten() for tensor in tensors]))
    for tensor, total in zip(tensors, together.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view(tensor.shape))
