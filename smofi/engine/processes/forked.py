"""Workers forked on one machine: they add in shared memory, and meet by a byte on a socket.

    workers = ForkedWorkers(2)
    workers.fork()         # from here on two processes run the same program
    workers.sum(tensor)    # both have the sum

A tensor passes through the shared memory in pieces that fit a slot, small enough for the slots to stay in the cache.
Every process has two slots, used in turn: a process that writes into one again has since met all others over the other
one, and none comes to that meeting before it has read the first.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from smofi.engine.processes.tree import mirrored
from smofi.engine.processes.workers import WorkerGone
from smofi.errors import check_count, refuse
from smofi.files import allow_files

SLOT = 2**20
"""The bytes of a slot."""

SPIN = 1e-3
"""Seconds to poll before blocking, since waking up takes longer than most sums."""

Link = tuple[socket.socket, socket.socket]
"""To tell one process, and to hear from another."""


class ForkedWorkers:
    """The processes that `fork` makes out of one, each with its `rank`; on Linux, for tensors on the CPU.

    >>> ForkedWorkers(1).sum(torch.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, check_count("size", size)
        self.children: list[int] = []
        memory = mmap.mmap(-1, 2 * size * SLOT)  # anonymous, and shared with forked processes
        self.slots = torch.frombuffer(memory, dtype=torch.uint8).view(2, size, SLOT)
        self.views: dict[torch.dtype, list[tuple[Tensor, ...]]] = {}
        self.turn = 0
        self.spin = SPIN if size <= len(os.sched_getaffinity(0)) else 0.0
        self.strides = [2**k for k in range((size - 1).bit_length())]
        allow_files(2 * size * len(self.strides))
        # pairs[i][k] leads from process i to process i + 2^k
        self.pairs = [[socket.socketpair() for _ in self.strides] for _ in range(size)]
        self.links: list[Link] = []

    def fork(self) -> None:
        """Make the other processes; the first has them as `children`."""
        if torch.get_num_threads() > 1:
            refuse(
                "threads", torch.get_num_threads(), "1 in a process that forks: a fork does not copy the other threads"
            )
        try:
            for rank in range(1, self.size):
                child = _fork()
                if not child:
                    self.rank, self.children = rank, []
                    break
                self.children.append(child)
        except OSError:
            self.end()
            raise
        self.links = [
            (self.pairs[self.rank][k][0], self.pairs[(self.rank - stride) % self.size][k][1])
            for k, stride in enumerate(self.strides)
        ]
        own_ends = {end for link in self.links for end in link}
        # if another process kept an end open, the death of its owner would go unnoticed
        _close([end for pairs in self.pairs for pair in pairs for end in pair if end not in own_ends])

    def end(self) -> None:
        """End the processes that this one has made; the others notice when they next meet."""
        _close([end for pairs in self.pairs for pair in pairs for end in pair])
        while self.children:
            child = self.children.pop()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    @torch.no_grad()
    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of what every process brings, in place; in the order of the tree, and so to the same bits
        everywhere."""
        for piece, slots in self._pieces(tensor):
            slots[self.rank].copy_(piece)
            self._meet()
            if self.size * piece.nbytes <= 2 * SLOT:
                _fold(slots, piece)
                continue
            # where that would be much to read, each process adds up one slice for all, in the first slot
            share = slice(len(piece) * self.rank // self.size, len(piece) * (self.rank + 1) // self.size)
            _fold([slot[share] for slot in slots], slots[0][share])
            self._meet()
            piece.copy_(slots[0])
        return tensor

    @torch.no_grad()
    def copy(self, tensor: Tensor) -> Tensor:
        """What the first process has, in place."""
        for piece, slots in self._pieces(tensor):
            if self.rank == 0:
                slots[0].copy_(piece)
            self._meet()
            if self.rank > 0:
                piece.copy_(slots[0])
        return tensor

    def _pieces(self, tensor: Tensor) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """The tensor piece by piece, each with every process's slot for it; what is written to a piece is in the
        tensor."""
        if tensor.dtype not in self.views:
            with torch.inference_mode(False):  # a view made in that mode would be of no use outside of it
                self.views[tensor.dtype] = [turn.view(tensor.dtype).unbind() for turn in self.slots]
        flat = tensor.reshape(-1)  # a view, if it can be one
        most = SLOT // tensor.element_size()
        for first in range(0, len(flat), most):
            piece = flat[first : first + most]
            self.turn = 1 - self.turn
            yield piece, [slot[: len(piece)] for slot in self.views[tensor.dtype][self.turn]]
        if flat.data_ptr() != tensor.data_ptr():
            tensor.copy_(flat.view(tensor.shape))

    def _meet(self) -> None:
        """Wait until every process is here. The system calls also order what is written before and read after.

        In turn k = 0, 1, ... process i tells process i + 2^k and hears from i - 2^k. So each hears from every other
        one, if only by way of others. If a process has ended, those it should have told notice, and close their links.
        """
        if len(self.links) < len(self.strides):
            refuse("workers", f"ForkedWorkers({self.size})", "fork() to be called before any exchange")
        try:
            for tell, hear in self.links:
                tell.send(b".")
                if not self._heard(hear):
                    raise ConnectionResetError("it has closed its socket")
        except OSError as error:
            _close([end for link in self.links for end in link])
            raise WorkerGone(self.rank, self.size, error) from error

    def _heard(self, hear: socket.socket) -> bytes:
        """A byte, or nothing from one that is gone."""
        until = time.perf_counter() + self.spin
        while time.perf_counter() < until:
            try:
                return hear.recv(1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return hear.recv(1)


def _fold(terms: Sequence[Tensor], total: Tensor) -> None:
    """The sum in the order of the tree; `total` may be one of the terms, and no other is changed."""
    while len(terms) > 2:
        kept, count = 1 << (len(terms) - 1).bit_length() - 1, len(terms)
        below = [(place, mirrored(place, count)) for place in range(kept)]
        terms = [terms[one] + terms[other] if other < count else terms[one] for one, other in below]
    if len(terms) == 2:
        torch.add(terms[0], terms[1], out=total)
    else:
        total.copy_(terms[0])


def _close(ends: Sequence[socket.socket]) -> None:
    for end in ends:
        end.close()


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of threads: those that are left are idle ones of libraries, which start them anew in the child
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
