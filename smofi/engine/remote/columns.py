"""A client's columns as one vector: what travels of a row before and after a round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from smofi.cut import Cut
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.room import Room
from smofi.engine.state import GlobalState
from smofi.flat import Columns, Layout, columns_in


class ClientColumns:
    """The columns of the blocks before the cut and, in the U shape, of those after the server's.

    >>> layout = Layout.of(torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(3))))
    >>> own = ClientColumns(layout, Cut(first=1, last=2, blocks=3))
    >>> own.of_vector(torch.arange(6.0)).tolist(), own.size
    ([0.0, 1.0, 4.0, 5.0], 4)
    """

    def __init__(self, layout: Layout, cut: Cut) -> None:
        self.weights = [layout.columns(blocks.start, blocks.stop) for blocks in cut.client_blocks]
        self.statistics = [layout.statistic_columns(blocks.start, blocks.stop) for blocks in cut.client_blocks]
        self.blocks = [block for blocks in cut.client_blocks for block in blocks]

    @property
    def size(self) -> int:
        """How many weights the client has."""
        return sum(map(columns_in, self.weights))

    @property
    def statistics_size(self) -> int:
        """How many running statistics it has."""
        return sum(map(columns_in, self.statistics))

    def of_vector(self, vector: Tensor) -> Tensor:
        """Its columns of a vector of all, or of several rows of them; copied."""
        return torch.cat([vector[..., columns] for columns in self.weights], dim=-1)

    def statistics_of(self, vector: Tensor) -> Tensor:
        """Its part of all statistics, copied."""
        return torch.cat([vector[columns] for columns in self.statistics])

    def updates(self, state: GlobalState) -> tuple[float, ...]:
        """How many updates the carried momentum of each of its blocks has seen."""
        return tuple(float(state.carried_updates[block]) for block in self.blocks)

    def fill(
        self, state: GlobalState, weights: Tensor, statistics: Tensor, moments: Tensor, updates: Sequence[float]
    ) -> None:
        """Write what the client starts a round from."""
        scatter(weights, self.weights, [state.weights])
        scatter(statistics, self.statistics, [state.statistics])
        if len(state.carried):
            scatter(moments, self.weights, state.carried)
            for block, count in zip(self.blocks, updates, strict=True):
                state.carried_updates[block] = count

    def of_row(self, room: Room, place: int) -> tuple[Tensor, Tensor]:
        """Weights and statistics of a row."""
        weights = [room.weights.of(place, columns) for columns in self.weights]
        return torch.cat(weights), torch.cat([room.statistics.of(place, columns) for columns in self.statistics])

    def fill_row(self, room: Room, place: int, weights: Tensor, statistics: Tensor) -> None:
        """Write the weights and statistics of a row."""
        for vector, columns, rows in (
            (weights, self.weights, room.weights),
            (statistics, self.statistics, room.statistics),
        ):
            for piece, run in zip(vector.split(list(map(columns_in, columns))), columns, strict=True):
                rows.of(place, run).copy_(piece)


def moments_of(side: Segments) -> Tensor:
    """The moments of a client's segments, `[K, columns]`; K is 0 for an optimizer without any."""
    kept = len(side[0].momentum.moments)
    found = side[0].weights.new_empty(kept, sum(columns_in(one.columns) for one in side))
    for moment, out in enumerate(found):
        torch.cat([one.momentum.moments[moment][0] for one in side], out=out)
    return found


def fill_moments(side: Segments, moments: Tensor, updates: int) -> None:
    """Write them; they have seen this many updates more."""
    start = 0
    for segment in side:
        width = columns_in(segment.columns)
        for own, given in zip(segment.momentum.moments, moments, strict=True):
            own[0].copy_(given[start : start + width])
        start += width
        segment.counts[segment.rows] = [count + updates for count in segment.counts[segment.rows]]


def distance_of_moments(segments: Segments, carried: Tensor) -> float:
    """How far the moments of these segments are from those that were carried into the round, `[K, P]`."""
    found = []
    for one in segments:
        for own, start in zip(one.momentum.moments, carried[:, one.columns], strict=True):
            found.append(float(torch.dist(own[0], start)))
    return math.hypot(*found)


def scatter(vector: Tensor, columns: Sequence[Columns], into: Sequence[Tensor] | Tensor) -> None:
    """Write runs of columns, which come one after the other in `vector`, to where they stand."""
    rows = vector.reshape(len(into), -1)
    for own, target in zip(rows, into, strict=True):
        for piece, run in zip(own.split(list(map(columns_in, columns))), columns, strict=True):
            target[run].copy_(piece)
