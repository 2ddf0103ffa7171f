"""A chunk of a round's rows: those that a process computes beside each other, from W_j <- W until they are added up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, groupby

from torch import Tensor, nn

from smofi.engine.cohort.halves import ClientHalf, ServerHalf
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.room import Room
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.cohort.stretch import Sides, Stretch
from smofi.engine.plan import RoundPlan


class Chunk:
    """Rows that live in a room, one per client, at places 0, 1, ..., one subtree of the process's branch after the
    other: those of a subtree can be computed at once.

    `members` are the clients by their row. `steps` are theirs and, where a server model is shared with other processes,
    those of the other processes' clients too. `fused` tells that the momenta of the server's columns are fused.
    """

    def __init__(
        self,
        room: Room,
        plan: RoundPlan,
        subtrees: Sequence[Sequence[int]],
        steps: dict[int, ClientSteps],
        fused: bool,
    ) -> None:
        self.room, self.steps = room, steps
        self.rows = [row for rows in subtrees for row in rows]
        first_places = accumulate((len(rows) for rows in subtrees), initial=0)
        begins = {row: first for rows, first in zip(subtrees, first_places, strict=False) for row in rows}
        self.members: dict[int, Member] = {}
        for cut, run in groupby(enumerate(self.rows), key=lambda placed: plan.cuts[placed[1]]):
            placed = list(run)
            stretch = Stretch(room, cut, [place for place, _ in placed], fused)
            self.members |= {row: Member(stretch, place, row, steps[row], begins[row]) for place, row in placed}

    def matrices(self, places: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Weights and statistics of consecutive rows, and room for their gradients."""
        room, layout = self.room, self.room.setup.layout
        columns, statistics = slice(0, layout.size), slice(0, layout.statistics_size)
        gradients = room.gradients.matrix(columns)[: places.stop - places.start]
        return room.weights.matrix(columns)[places], room.statistics.matrix(statistics)[places], gradients


class Member:
    """A client whose steps this process computes: its row, the row's place in the room, where its subtree begins there,
    and its steps.

    It does not know its chunk, so that both are freed as soon as the round lets go of them.
    """

    def __init__(self, stretch: Stretch, place: int, row: int, steps: ClientSteps, subtree: int) -> None:
        self.stretch, self.place, self.row, self.steps, self.subtree = stretch, place, row, steps, subtree
        self.model: nn.Sequential = stretch.room.models[place]

    @property
    def in_subtree(self) -> int:
        """Its place in its subtree."""
        return self.place - self.subtree

    @cached_property
    def sides(self) -> Sides:
        """The client's and the server's columns of the row."""
        return self.stretch.sides(slice(self.place, self.place + 1))

    @cached_property
    def updated(self) -> Sequence[Segments]:
        """What a step of the whole model updates."""
        return self.stretch.updated(slice(self.place, self.place + 1))

    @cached_property
    def client_half(self) -> ClientHalf:
        """Made on first use, like the server's half: a model that runs as a whole needs neither."""
        return ClientHalf.of(self.stretch.room.setup, self.model, self.stretch.cut, self.sides[0], self.steps)

    @cached_property
    def server_half(self) -> ServerHalf:
        return ServerHalf.of(self.stretch.room.setup, self.model, self.stretch.cut, self.sides[1])

    @property
    def updates(self) -> tuple[float, ...]:
        """How many updates each of its segments has seen."""
        return tuple(segment.updates for side in self.sides for segment in side)
