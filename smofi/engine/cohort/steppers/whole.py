"""Client by client, each through its whole model: where a real split would change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from smofi.engine.cohort.chunk import Chunk, Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.steps import naming_clients
from smofi.engine.noise import give_keys


class WholeStepper:
    """A forward and a backward pass through all blocks, then one update of both sides."""

    def __init__(self, context: RoundContext) -> None:
        self.context = context

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each client that this process has."""
        for group in groups:
            for row in group:
                if row in chunk.members:
                    self.step_group([chunk.members[row]])

    def step_group(self, members: Sequence[Member]) -> None:
        """One step of a client: groups are of one, for several share a server's batch only where the split is real."""
        (member,) = members
        context, setup, steps = self.context, self.context.setup, member.steps
        with naming_clients([steps]), context.kernels():
            inputs, targets = steps.batch()
            context.reseed(steps.seed)
            give_keys(member.model, steps.keys)
            with setup.cast():
                value = context.loss_of(member.model, setup.loss, inputs, targets)
            value.backward()
        steps.advance(value.detach())
        watching = context.diagnostics
        with torch.no_grad():
            if watching:
                watching.gradient(context.simulation.room.gradients, [member.place])
            context.begin_update(member)
            setup.local.apply(member.sides, context.plan.lr)
            context.end_update(member)
