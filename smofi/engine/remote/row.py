"""One client of a round, as the server sees it: its row, how far it is, and what it has sent."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import ServerHalf
from smofi.engine.finite import all_finite, finite_or_kept
from smofi.engine.remote.columns import distance_of_moments, fill_moments
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Expected
from smofi.engine.remote.messages import Activation, Begin, Finished, Returned, Up
from smofi.engine.remote.weights_later import WeightsLater
from smofi.flat import Columns

LARGEST_GRADIENT = 1e6
"""The norm of a gradient beyond which a client has diverged, before it can become part of what others share; where the
method makes it smaller than that, it has to be finite."""

TOO_LARGE = f"the gradient became larger than {LARGEST_GRADIENT:g}, or non-finite"


class RemoteRow:
    """`target` is how many steps it should have taken by the end of the tick; `steps.done` are those whose gradients
    are computed, `updates` those that have changed the row. `since` is when it was last asked for something it has not
    answered yet. `server_square` is |g|² of the server's columns, and `square` of the client's, once it is known."""

    server_square: Tensor

    def __init__(self, row: int, member: Member, crossing: Crossing, context: RoundContext) -> None:
        self.row, self.member, self.crossing, self.context = row, member, crossing, context
        self.plan, self.cut, self.steps = context.plan.of_client(row), context.plan.cuts[row], member.steps
        self.server: ServerHalf = member.server_half
        self.later = WeightsLater()
        self.target = self.updates = 0
        self.activation: Activation | None = None
        self.returned: Returned | None = None
        self.finished: Finished | None = None
        self.square: float | None = None
        self.since: float | None = None

    @property
    def client(self) -> int:
        return self.plan.client

    @property
    def device(self) -> torch.device:
        """Where the server computes."""
        return self.context.state.weights.device

    @property
    def under_way(self) -> str:
        """The step that has not changed the row yet, in words."""
        step = min(self.updates + 1, self.plan.steps)
        return f"round {self.plan.round + 1}, step {step} of {self.plan.steps}, client {self.client}"

    @property
    def server_statistics(self) -> Tensor:
        """The running statistics of the server's blocks."""
        return self.member.stretch.room.statistics.of(self.member.place, self._statistic_columns)

    @property
    def _statistic_columns(self) -> Columns:
        return self.context.setup.layout.statistic_columns(self.cut.first, self.cut.last)

    def statistics_finite(self) -> bool:
        """Whether they are still numbers, or the constants that they were."""
        return finite_or_kept(self.server_statistics, self.context.state.statistics[self._statistic_columns])

    def moved(self) -> dict[str, float]:
        """How far weights, statistics and moments that are carried on are from where the round began, but for what all
        rows share."""
        room, place, state = self.member.stretch.room, self.member.place, self.context.state
        found = {
            "weights": room.weights.distance(place, state.weights),
            "statistics": room.statistics.distance(place, state.statistics),
        }
        if state.carried.numel():
            sides = self.member.sides[: 1 if self.context.setup.method.where.one_server else 2]
            found["moments"] = distance_of_moments([segment for side in sides for segment in side], state.carried)
        return {kind: math.inf if math.isnan(distance) else distance for kind, distance in found.items()}

    def changed_statistics(self) -> float:
        """The norm that the statistics which this row has changed had where the round began."""
        room = self.member.stretch.room
        return room.statistics.size_where_changed(self.member.place, self.context.state.statistics)

    def begin(self) -> Begin:
        """What the client starts the round from."""
        context, own = self.context, self.crossing.columns
        state, carries = context.state, bool(context.setup.method.carry)
        return Begin(
            plan=self.plan,
            lr=context.plan.lr,
            cut=self.cut,
            onednn=context.onednn,
            weights=own.of_vector(state.weights),
            statistics=own.statistics_of(state.statistics),
            moments=own.of_vector(state.carried) if carries else state.weights.new_zeros(0),
            updates=own.updates(state) if carries else (),
        )

    def asked(self) -> None:
        """The client owes an answer from now on."""
        self.since = time.monotonic()

    def expects_next(self, squares: bool) -> Expected:
        """What the client owes after its cut gradient: its next activation, or after its last step its columns."""
        if self.steps.done == self.plan.steps:
            return self.crossing.expects_finished(self.plan, squares)
        return self.crossing.expects_activation(self.plan, self.steps.done, squares)

    def answered(self, message: Up) -> None:
        """The client's answer, which waits to be used."""
        self.since = None
        if isinstance(message, Activation):
            self.activation = message
        elif isinstance(message, Returned):
            self.returned = message
        elif isinstance(message, Finished):
            self.finished = message
        if isinstance(message, Activation | Finished) and message.square is not None:
            self.square = message.square

    def take_activation(self) -> tuple[Tensor, Tensor | None]:
        """Activation and targets, used once; where the server computes."""
        arrived, self.activation = self.activation, None
        assert arrived is not None
        targets = arrived.targets
        return arrived.activation.to(self.device), None if targets is None else targets.to(self.device)

    def take_returned(self) -> tuple[Tensor, Tensor]:
        """Loss and gradient of the server's output, used once; zeros for a client that was lost meanwhile."""
        returned, self.returned = self.returned, None
        output, dtype, device = self.crossing.output, self.crossing.setup.layout.dtype, self.device
        if returned is None:
            nothing = torch.zeros(self.plan.batch_size, *output.sizes, dtype=output.dtype, device=device)
            return torch.zeros((), device=device), nothing
        return torch.tensor(returned.loss, dtype=dtype, device=device), returned.gradient.to(device)

    def compute_weights(self) -> bool:
        """Compute the gradients of the server's weights, which no client waits for; False if they cannot be used."""
        with self.server.threads():
            self.later.compute()
        gradients = [segment.gradient for segment in self.server.columns]
        if self.context.setup.local.limits_to(LARGEST_GRADIENT):
            return all(map(all_finite, gradients))
        return all(bool(gradient.norm() <= LARGEST_GRADIENT) for gradient in gradients)

    @torch.no_grad()
    def limited(self) -> float:
        """|g|² of the server's columns, which the client needs."""
        self.server_square = self.context.setup.local.limited(self.server.columns)
        return float(self.server_square)

    @torch.no_grad()
    def update(self) -> None:
        """The server's columns take their step."""
        local, lr = self.context.setup.local, self.context.plan.lr
        self.context.begin_update(self.member)
        if self.square is None:
            self.server.update(lr)
        else:
            # |g|² = |g_client|² + |g_server|²
            local.apply([self.server.columns], lr, square=self.square + self.server_square)
            self.square = None
        self.context.end_update(self.member)
        self.updates = self.steps.done

    def take_columns(self) -> str | None:
        """The client's columns after its last step become part of its row, unless they cannot be: then returns why."""
        finished = self.finished
        assert finished is not None
        if bool((finished.statistics[self.crossing.variances] < 0).any()):
            return "a running variance is negative"
        if len(finished.moments) > 1 and bool((finished.moments[1] < 0).any()):
            return "a second moment is negative"
        room = self.member.stretch.room
        self.crossing.columns.fill_row(room, self.member.place, finished.weights, finished.statistics)
        if self.context.setup.method.carry:
            fill_moments(self.member.sides[0], finished.moments, self.plan.steps)
        self.finished = None
        return None

    def forget(self) -> None:
        """Nothing that was begun is ended: its client is lost."""
        self.since = self.activation = self.returned = self.finished = self.square = None
        self.later.discard()
        if self.updates < self.steps.done and not self.context.setup.method.where.one_server:
            self.void()

    @torch.no_grad()
    def void(self) -> None:
        """The gradient of the server's columns comes to nothing: there is no update from it."""
        for segment in self.server.columns:
            segment.gradient.zero_()
