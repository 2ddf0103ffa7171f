"""What a round adds up over its rows, as they finish: all that is left of them at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smofi.engine.cohort.local import Segment
from smofi.engine.cohort.tree_sum import TreeSum, Vectors
from smofi.engine.processes.tree import NOTHING, Branch
from smofi.engine.processes.workers import Workers
from smofi.engine.state import GlobalState


@dataclass(frozen=True)
class Averaged:
    """What is averaged over the rows, as views of one vector: weights, changes of the statistics and, where they are
    carried on, moments."""

    vector: Tensor
    weights: Tensor
    change: Tensor
    moments: Tensor

    @classmethod
    def like(cls, state: GlobalState) -> Averaged:
        """Room for it, in one vector."""
        tensors = state.weights, state.statistics, state.carried
        vector = state.weights.new_empty(sum(tensor.numel() for tensor in tensors))
        pieces = vector.split([tensor.numel() for tensor in tensors])
        return cls(vector, *(piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)))


class Sums:
    """Weighted sums over the rows of this process, which come subtree by subtree.

    `updates` are those of every block that the carried moments have seen. `losses` and `broken` (is a weight not
    finite?) are by row.
    """

    def __init__(self, state: GlobalState, branch: Branch, subtrees: Sequence[int]) -> None:
        """`subtrees` are the subtrees of the branch that come one after the other, by the first row of each."""
        self.state = state
        self.rooms = rooms = list[Averaged]()
        self.vectors = Vectors(lambda: _more_room(rooms, state))
        self.counts = Vectors(lambda: torch.empty_like(state.carried_updates))
        self.total = TreeSum(self.vectors, branch, subtrees)
        self.updates = TreeSum(self.counts, branch, branch.rows)
        self.losses: dict[int, Tensor] = {}
        self.broken: dict[int, Tensor] = {}
        if not branch.rows:
            self.begin().vector.fill_(NOTHING)
            self.counts[self.counts.take()].fill_(NOTHING)

    def begin(self) -> Averaged:
        """Room for what the next subtree brings."""
        self.number = self.vectors.take()
        return self.rooms[self.number]

    def add(self, subtree: int) -> None:
        """What it brings is written to where `begin` said."""
        self.total.add(subtree, self.number)

    def add_updates(self, row: int, share: float, segments: Sequence[Segment]) -> None:
        """p_j times the number of updates that each block of the row has seen."""
        number = self.counts.take()
        counts = self.counts[number].fill_(NOTHING)
        for segment in segments:
            counts[segment.blocks.start : segment.blocks.stop] = share * segment.updates
        self.updates.add(row, number)

    def averaged(self) -> Averaged:
        """The sums of this process; nothing, if it has no rows."""
        return self.rooms[self.total.stack[0] if self.total.stack else 0]

    def counted(self) -> Tensor:
        """The sum of the updates."""
        return self.counts[self.updates.stack[0] if self.updates.stack else 0]

    def exchange_losses(self, workers: Workers, steps: Sequence[int]) -> None:
        """Losses, and whether a weight is broken, of all processes; each row belongs to one of them."""
        device = self.state.weights.device
        matrix = torch.full((len(steps), 1 + max(steps)), NOTHING, dtype=loss_dtype(device), device=device)
        for row, broken in self.broken.items():
            matrix[row, 0] = broken
        for row, losses in self.losses.items():
            matrix[row, 1 : 1 + len(losses)] = losses
        workers.sum(matrix)
        self.broken = dict(enumerate(matrix[:, 0]))
        self.losses = {row: matrix[row, 1 : 1 + count] for row, count in enumerate(steps)}


def loss_dtype(device: torch.device) -> torch.dtype:
    """What losses are kept as, whatever type a loss function gives them."""
    return torch.float32 if device.type == "mps" else torch.float64  # which Apple's GPUs do not have


def _more_room(rooms: list[Averaged], state: GlobalState) -> Tensor:
    rooms.append(Averaged.like(state))
    return rooms[-1].vector
