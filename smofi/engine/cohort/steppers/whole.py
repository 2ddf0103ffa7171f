"""Client by client, each through its whole model: where a real split would change nothing.

A tiny model's step takes little longer than calling it. So what is the same for all steps of a tick is done once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from smofi.engine.cohort.chunk import Chunk, Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.steps import failure
from smofi.engine.cpu.private import backward
from smofi.engine.noise import give_keys


class WholeStepper:
    """A forward and a backward pass through all blocks, then one update of both sides."""

    def __init__(self, context: RoundContext) -> None:
        self.context, setup = context, context.setup
        self.backward = torch.Tensor.backward if setup.compiled else backward
        self.local, self.loss, self.dropout, self.lr = setup.local, setup.loss, setup.dropout, context.plan.lr

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each client that this process has."""
        with self.context.kernels():
            for group in groups:
                for row in group:
                    if row in chunk.members:
                        self._step(chunk.members[row])

    def step_group(self, members: Sequence[Member]) -> None:
        """One step of a client: groups are of one, for several share a server's batch only where the split is real."""
        (member,) = members
        with self.context.kernels():
            self._step(member)

    def _step(self, member: Member) -> None:
        context, steps = self.context, member.steps
        try:
            inputs, targets = steps.batch()
            context.reseed(steps.seed)
            if self.dropout:
                give_keys(member.model, steps.keys)
            with context.setup.cast():
                value = context.loss_of(member.model, self.loss, inputs, targets)
            self.backward(value)
        except Exception as error:
            raise failure([steps], error) from error
        with torch.no_grad():
            steps.advance(value.detach())
            if context.diagnostics:
                context.diagnostics.gradient(context.simulation.room.gradients, [member.place])
            context.begin_update(member)
            self.local.apply(member.updated, self.lr)
            context.end_update(member)
