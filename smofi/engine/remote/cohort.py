"""The remote cohort: a round whose clients are on other machines, as `run_round` drives it.

It is the simulated cohort with other steps: rows, fusion and sums are the same, so that the numbers are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

from smofi.cut import Cut
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.room import Room
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.steppers import Stepper
from smofi.engine.cohort.steps import ClientSteps, Steps
from smofi.engine.plan import RoundPlan
from smofi.engine.remote.crossing import Crossing, Task
from smofi.engine.remote.fusion import LossyFusion
from smofi.engine.remote.links import Links
from smofi.engine.remote.one_server import OneServer
from smofi.engine.remote.own_servers import OwnServers
from smofi.engine.remote.stepper import RemoteStepper
from smofi.method import Tick


@dataclass(frozen=True)
class Deployment(Simulation):
    """A run whose clients are reached by links. Of their samples, only what `Simulation.clients` says of them is known:
    how many, and of which size.

    `patience` is for how many seconds a client's answer is waited for; `pool` computes several server passes at a time.
    `weights_later` says whether a client may have its answer before the gradients of the server's weights are computed.
    """

    links: Links = field(kw_only=True)
    task: Task = field(kw_only=True)
    patience: float | None = field(default=None, kw_only=True)
    pool: Executor | None = field(default=None, kw_only=True)
    weights_later: bool = field(default=False, kw_only=True)

    @property
    def side_by_side(self) -> bool:
        """Always: all clients of a round compute at the same time."""
        return True

    @cached_property
    def room(self) -> Room:
        """A gradient for each row, which may wait for its update."""
        return Room(self.setup, self.state, own_gradients=True)

    @cached_property
    def crossings(self) -> dict[Cut, Crossing]:
        """What crosses each cut that has been used."""
        return {}

    def crossing(self, cut: Cut) -> Crossing:
        """What crosses this cut."""
        if cut not in self.crossings:
            self.crossings[cut] = Crossing(self.setup, cut, self.task)
        return self.crossings[cut]


class RemoteCohort(SimulatedCohort):
    """One round of a deployment."""

    fusion = LossyFusion
    stepper: RemoteStepper

    def __init__(self, deployment: Simulation, plan: RoundPlan) -> None:
        assert isinstance(deployment, Deployment)
        self.deployment = deployment
        super().__init__(deployment, plan)

    def make_stepper(self) -> Stepper:
        deployment = self.deployment
        crossings = {row: deployment.crossing(cut) for row, cut in enumerate(self.plan.cuts)}
        # of the context, not of this object: a cycle of references would keep the round in memory
        own = deployment.patience, partial(_lose, self.context), deployment.pool, deployment.weights_later
        kind = OneServer if self.setup.method.where.one_server else OwnServers
        return kind(self.context, deployment.links, crossings, *own)

    def ticks(self) -> Generator[Tick, None, None]:
        """The steps of the round, without the clients that are lost by then."""
        for tick in super().ticks():
            groups = [tuple(self._left(group)) for group in tick.groups]
            left = Tick([group for group in groups if group], tuple(self._left(tick.average)))
            if left.groups or left.average:  # an epoch ends also if the client that took its last step is lost
                yield left

    def average_servers(self, active: Sequence[int]) -> None:
        """As in a simulation, without clients that were lost in the step that has just been taken."""
        super().average_servers(self._left(active))

    def close_rows(self) -> None:
        """The clients' columns come in; then all rows are added up, but for those of lost clients."""
        self.stepper.collect()
        self.plan = without(self.plan, list(self.stepper.reasons))
        super().close_rows()

    def _add_rows(self, rows: Sequence[int]) -> None:
        """Those of lost clients are no part of the sum, whatever is in them."""
        lost = self.stepper.reasons
        super()._add_rows([row for row in rows if row not in lost])
        if self.setup.method.carry:
            for row in lost:
                self.sums.add_updates(row, 0.0, [])

    @property
    def left_out(self) -> dict[int, str]:
        """The clients that were lost in this round, and why."""
        return {self.plan.clients[row]: reason for row, reason in self.stepper.reasons.items()}

    def _open(self, subtrees: list[list[int]], pool: Executor | None) -> None:
        super()._open(subtrees, pool)
        self.stepper.open(self.chunk)

    def _steps_of(self, own: set[int], pool: Executor | None) -> dict[int, ClientSteps]:
        """As far as the server knows them: the samples are elsewhere, and no step here asks for any."""
        device, dropout = self.state.weights.device, self.setup.dropout
        steps = {row: Steps(self.plan.of_client(row), device, dropout) for row in own}
        return cast("dict[int, ClientSteps]", steps)

    def _left(self, rows: Sequence[int]) -> list[int]:
        """Those of these rows whose clients are not lost."""
        return [row for row in rows if row not in self.stepper.reasons]


def _lose(context: RoundContext, row: int, keep: bool) -> None:
    """The client of this row takes no further step."""
    if isinstance(fusion := context.fusion, LossyFusion):
        fusion.lose(row, keep)


def without(plan: RoundPlan, lost: Sequence[int]) -> RoundPlan:
    """The plan with the shares of those who are left: p_j over the sum of theirs."""
    if not lost:
        return plan
    kept = [0.0 if row in lost else share for row, share in enumerate(plan.shares)]
    return replace(plan, shares=[share / sum(kept) for share in kept])
