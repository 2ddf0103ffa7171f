"""Neighbouring rows that are cut alike: their columns as segments, and their momenta."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from torch import Tensor

from smofi.cut import Cut
from smofi.engine.cohort.local import Momentum, Segment, Segments
from smofi.engine.cohort.room import Room
from smofi.flat import Columns

Sides = tuple[Segments, Segments]
"""The client's and the server's columns of one row, or of several."""


class Stretch:
    """Rows at consecutive places of a room that are cut alike: their momenta are one tensor, so that those computed at
    once can be updated together."""

    def __init__(self, room: Room, cut: Cut, places: Sequence[int], fused: bool) -> None:
        self.room, self.cut, self.fused = room, cut, fused
        self.first, self.count = places[0], len(places)
        self.sides_by_places: dict[tuple[int, int], Sides] = {}
        self.whole_by_places: dict[tuple[int, int], list[Segments]] = {}
        self.moments: dict[int, tuple[Tensor, list[float]]] = {}
        self.fused_counts = [0.0] * self.count

    def sides(self, places: slice) -> Sides:
        """The client's and the server's columns of some of the rows."""
        key = places.start, places.stop
        if key not in self.sides_by_places:
            cut = self.cut
            client = [segment for blocks in cut.client_blocks for segment in self._segments(places, blocks)]
            self.sides_by_places[key] = client, self._segments(places, range(cut.first, cut.last), server=True)
        return self.sides_by_places[key]

    def updated(self, places: slice) -> Sequence[Segments]:
        """What a step updates: both sides, or all columns as one segment where no side is treated apart."""
        if not self.room.setup.sides_alike:
            return self.sides(places)
        key = places.start, places.stop
        if key not in self.whole_by_places:
            self.whole_by_places[key] = [[self._segment(places, range(self.cut.blocks), server=False)]]
        return self.whole_by_places[key]

    def _segments(self, places: slice, blocks: range, server: bool = False) -> list[Segment]:
        """Blocks of some rows: a single segment, unless carried momentum has seen a different number of updates."""
        updates = self.room.state.carried_updates
        runs = [list(run) for _, run in groupby(blocks, key=lambda block: float(updates[block]))]
        return [self._segment(places, range(run[0], run[-1] + 1), server) for run in runs]

    def _segment(self, places: slice, blocks: range, server: bool) -> Segment:
        room, where = self.room, self.room.setup.method.where
        columns, count = room.setup.layout.columns(blocks.start, blocks.stop), places.stop - places.start
        single = server and where.one_server
        rows = slice(0, 1) if single else slice(places.start - self.first, places.stop - self.first)
        gradient = room.gradients.matrix(columns)
        own_gradient = room.own_gradients and not single
        momentum, counts = self._momentum(blocks.start, columns, rows, server)
        return Segment(
            blocks=blocks,
            columns=columns,
            weights=room.weights.matrix(columns)[rows if single else places],
            gradient=gradient[places] if own_gradient else gradient[:count],
            start=room.state.weights[columns],
            momentum=momentum,
            counts=counts,
            rows=rows,
        )

    def _momentum(self, block: int, columns: Columns, rows: slice, server: bool) -> tuple[Momentum, list[float]]:
        """The momentum of these rows, their own or fused, and how many updates each row of the stretch has seen."""
        if self.fused and server:
            return Momentum((), ()), self.fused_counts  # the momentum is set with every step
        first, inside = block, slice(None)
        if self.room.setup.sides_alike:  # one tensor for all columns
            first, columns, inside = 0, slice(0, self.room.setup.layout.size), columns
        if first not in self.moments:
            one_server = server and self.room.setup.method.where.one_server
            self.moments[first] = self._fresh(first, columns, 1 if one_server else self.count)
        moments, counts = self.moments[first]
        own = tuple(moments[:, rows, inside])
        return Momentum(own, own), counts

    def _fresh(self, block: int, columns: Columns, rows: int) -> tuple[Tensor, list[float]]:
        """The moments that a round starts from, `[moments, rows, columns]`: carried on, or zero."""
        state, setup = self.room.state, self.room.setup
        updates = [float(state.carried_updates[block])] * rows
        if setup.method.carry:
            return state.carried[:, None, columns].repeat(1, rows, 1), updates
        return state.weights.new_zeros(setup.optimizer.moments, rows, columns.stop - columns.start), updates
