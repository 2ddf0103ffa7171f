"""A chunk of a round's rows: those that a process computes beside each other, from W_j <- W until they are added up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

from torch import Tensor, nn

from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.halves import ClientHalf, ServerHalf
from smofi.engine.cohort.local import Momentum, Segment, Segments
from smofi.engine.cohort.room import Room
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.plan import RoundPlan
from smofi.flat import Columns

Sides = tuple[Segments, Segments]
"""The client's and the server's columns of one row, or of several."""


class Chunk:
    """Rows that live in a room, one per client, at places 0, 1, ...

    `members` are the clients by their row. `steps` are theirs and, where a server model is shared with other processes,
    those of the other processes' clients too.

    Rows cut alike that lie next to each other are a stretch: their momenta are one tensor, and they can be updated
    together.
    """

    def __init__(
        self, room: Room, plan: RoundPlan, rows: Sequence[int], steps: dict[int, ClientSteps], fusion: Fusion | None
    ) -> None:
        self.room, self.setup, self.state = room, room.setup, room.state
        self.rows, self.steps, self.fusion = list(rows), steps, fusion
        self.cuts = [plan.cuts[row] for row in rows]
        self.stretches = [list(places) for _, places in groupby(range(len(rows)), key=self.cuts.__getitem__)]
        self.moments: dict[tuple[int, int], tuple[Tensor, list[float]]] = {}
        self.sides_by_places: dict[tuple[int, int], Sides] = {}
        self.members = {row: Member(self, place, row, steps[row]) for place, row in enumerate(rows)}

    def matrices(self, places: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Weights and statistics of consecutive rows, and room for their gradients."""
        room, layout = self.room, self.setup.layout
        columns, statistics = slice(0, layout.size), slice(0, layout.statistics_size)
        gradients = room.gradients.matrix(columns)[: places.stop - places.start]
        return room.weights.matrix(columns)[places], room.statistics.matrix(statistics)[places], gradients

    def sides(self, places: slice) -> Sides:
        """The client's and the server's columns of consecutive rows that are cut alike."""
        key = places.start, places.stop
        if key not in self.sides_by_places:
            stretch = next(stretch for stretch in self.stretches if places.start in stretch)
            cut = self.cuts[places.start]
            client = [segment for blocks in cut.client_blocks for segment in self._segments(stretch, places, blocks)]
            self.sides_by_places[key] = client, self._segments(stretch, places, range(cut.first, cut.last), server=True)
        return self.sides_by_places[key]

    def _segments(self, stretch: list[int], places: slice, blocks: range, server: bool = False) -> list[Segment]:
        """Blocks of some rows: a single segment, unless carried momentum has seen a different number of updates."""
        runs = groupby(blocks, key=lambda block: float(self.state.carried_updates[block]))
        return [self._segment(stretch, places, list(run), updates, server) for updates, run in runs]

    def _segment(self, stretch: list[int], places: slice, blocks: list[int], updates: float, server: bool) -> Segment:
        columns, count = self.setup.layout.columns(blocks[0], blocks[-1] + 1), places.stop - places.start
        where, fusion = self.setup.method.where, self.fusion if server else None
        single = server and where.one_server
        rows = slice(0, 1) if single else slice(places.start - stretch[0], places.stop - stretch[0])
        gradient = self.room.gradients.matrix(columns)
        own_gradient = where.merges and not single
        moments, counts = self._moments(
            stretch, blocks[0], columns, updates, 1 if single else len(stretch), bool(fusion)
        )
        own_moments = tuple(moments[:, rows])
        momentum = Momentum(own_moments, own_moments)
        if fusion:
            prior = tuple(moment.expand(count, -1) for moment in fusion.view(fusion.prior, columns))
            latest, total = fusion.view(fusion.latest[:, :count], columns), fusion.view(fusion.total, columns)
            momentum = Momentum(prior, latest, total)
        return Segment(
            blocks=range(blocks[0], blocks[-1] + 1),
            columns=columns,
            weights=self.room.weights.matrix(columns)[rows if single else places],
            gradient=gradient[places] if own_gradient else gradient[:count],
            start=self.state.weights[columns],
            momentum=momentum,
            counts=counts,
            rows=rows,
        )

    def _moments(
        self, stretch: list[int], block: int, columns: Columns, updates: float, rows: int, fused: bool
    ) -> tuple[Tensor, list[float]]:
        """The moments of a stretch of rows, `[moments, rows, columns]`, and how many updates each row has seen."""
        key = stretch[0], block
        if key not in self.moments:
            if self.setup.method.carry:
                moments = self.state.carried[:, None, columns].repeat(1, rows, 1)
            else:
                count = 0 if fused else self.setup.optimizer.moments
                moments = self.state.weights.new_zeros(count, rows, columns.stop - columns.start)
            self.moments[key] = moments, [updates] * rows
        return self.moments[key]


class Member:
    """A client whose steps this process computes: its row, the row's place in the chunk, and its steps."""

    def __init__(self, chunk: Chunk, place: int, row: int, steps: ClientSteps) -> None:
        self.chunk, self.place, self.row, self.steps = chunk, place, row, steps

    @property
    def model(self) -> nn.Sequential:
        """The whole model, bound to the row."""
        return self.chunk.room.models[self.place]

    @property
    def sides(self) -> Sides:
        """The client's and the server's columns of the row."""
        return self.chunk.sides(slice(self.place, self.place + 1))

    @cached_property
    def client_half(self) -> ClientHalf:
        """Made on first use, like the server's half: a model that runs as a whole needs neither."""
        chunk = self.chunk
        return ClientHalf(chunk.setup, self.model, chunk.cuts[self.place], self.sides[0], self.steps)

    @cached_property
    def server_half(self) -> ServerHalf:
        chunk = self.chunk
        return ServerHalf(chunk.setup, self.model, chunk.cuts[self.place], self.sides[1])

    @property
    def updates(self) -> tuple[float, ...]:
        """How many updates each of its segments has seen."""
        return tuple(segment.updates for side in self.sides for segment in side)
