"""What lives for a round: its plan, the clients' shares, the fused momentum and the diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from torch import Tensor

from smofi.cut import regions
from smofi.engine.cohort.chunk import Member
from smofi.engine.cohort.diagnostics import Diagnostics
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.noise import reseeder
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import Branch

GATHERED, GATHERED_BY_ALL = 2**18, 2**21
"""Bytes of inputs that are gathered in one go, for one client and for all that take turns: no more than a processor's
cache holds beside a small model."""


def gathered_by_each(beside: int) -> int:
    """For each of the clients that a process computes beside each other.

    >>> gathered_by_each(1), gathered_by_each(16), gathered_by_each(0)
    (262144, 131072, 0)
    """
    return min(GATHERED, GATHERED_BY_ALL // beside) if beside else 0


class RoundContext:
    """One round of a simulation, whichever of its rows are computed at the moment."""

    def __init__(
        self, simulation: Simulation, plan: RoundPlan, branch: Branch, at_once: int, fusion: type[Fusion] = Fusion
    ) -> None:
        """`branch` has the rows of this process, of which up to `at_once` are updated at once, 0 if one by one."""
        setup, state = simulation.setup, simulation.state
        self.simulation, self.setup, self.state, self.plan = simulation, setup, state, plan
        self.shares = state.weights.new_tensor(plan.shares)
        self.planned_shares = state.weights.new_tensor(plan.planned_shares)
        self.regions = regions(plan.cuts)
        self.fusion: Fusion | None = None
        moments = setup.optimizer.moments
        if setup.method.fuse and moments:
            like = state.weights.new_empty(moments, 0)
            self.fusion = fusion(setup.method.fuse, plan, setup.layout, like, branch, at_once)
        self.diagnostics: Diagnostics | None = None
        if simulation.diagnose:
            self.diagnostics = Diagnostics(plan, setup.method, setup.layout, moments, state.weights)
        pixels = min(simulation.clients[client].pixels for client in plan.clients)
        self.onednn = suits_onednn(setup.template, max(plan.batch_sizes), pixels)
        self.reseed: Callable[[int], object] = reseeder(state.weights.device)
        self.loss_of: Callable[..., Tensor] = simulation.loss_of

    @property
    def executes_split(self) -> bool:
        """Whether a real split would change anything: there is a wire, merged batches, labels that stay with the
        client, threads for the server alone, or layers that draw random numbers in each part."""
        setup = self.setup
        if setup.wire or setup.passes.draws or setup.method.where.merges or setup.server_threads > 1:
            return True
        if setup.compiled and setup.method.where.one_server:
            return True  # with several workers it is split, and only whole models are compiled
        return any(cut.u_shaped for cut in self.plan.cuts)

    def kernels(self) -> AbstractContextManager[None]:
        """The convolution kernels that suit the round's batches."""
        return convolutions(self.onednn)

    def steps_of(self, row: int, beside: int, pool: Executor | None = None) -> ClientSteps:
        """The steps of a client, one of those that this process computes `beside` each other, 0 if it does not compute
        it; `pool` reads its samples ahead, if reading them takes time."""
        plan = self.plan.of_client(row)
        samples, device = self.simulation.clients[plan.client], self.state.weights.device
        ahead = pool if samples.slow else None
        gathered = 0 if self.simulation.execution.at_once else gathered_by_each(beside)
        return ClientSteps(plan, samples, device, self.setup.dropout, self.simulation.augment, ahead, gathered)

    def begin_update(self, member: Member) -> None:
        """A client's gradients are computed: where momenta are fused, its step continues from the fused one."""
        if self.fusion:
            (server,) = member.sides[1]
            server.momentum = self.fusion.momentum(member.row)

    def end_update(self, member: Member) -> None:
        """Its weights and momenta are those after the step."""
        if self.diagnostics:
            self.diagnostics.momentum(member.sides[1])
        if self.fusion:
            self.fusion.add(member.row)
