"""Clients in neighbouring rows in one pass, as long as there are enough of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from smofi.engine.cohort.chunk import Chunk, Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.steppers.split import SplitStepper
from smofi.engine.cohort.steppers.whole import WholeStepper
from smofi.engine.cohort.steps import naming_clients, stacked_batches


class AtOnceStepper:
    """Runs of neighbours that can take their next step together; what is left over goes `one_by_one`."""

    def __init__(self, context: RoundContext, one_by_one: WholeStepper | SplitStepper) -> None:
        self.context, self.one_by_one = context, one_by_one
        self.execution = context.simulation.execution

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each client that this process has."""
        members = [chunk.members[row] for group in groups for row in group if row in chunk.members]
        for run in self._runs(members):
            if len(run) >= self.execution.at_least:
                self._step_at_once(chunk, run)
            else:
                for member in run:
                    self.one_by_one.step_group([member])

    def _runs(self, members: list[Member]) -> Iterator[list[Member]]:
        runs: list[list[Member]] = []
        for member in sorted(members, key=lambda member: member.place):
            if runs and len(runs[-1]) < self.execution.at_once and self._go_together(runs[-1][-1], member):
                runs[-1].append(member)
            else:
                runs.append([member])
        yield from runs

    def _go_together(self, one: Member, other: Member) -> bool:
        plan = self.context.plan
        return (
            other.place == one.place + 1
            and plan.cuts[one.row] == plan.cuts[other.row]
            and one.steps.batch_size == other.steps.batch_size
            and (not self.context.setup.optimizer.counts or one.updates == other.updates)
        )

    def _step_at_once(self, chunk: Chunk, run: list[Member]) -> None:
        context, steps = self.context, [member.steps for member in run]
        places = slice(run[0].place, run[-1].place + 1)
        with naming_clients(steps):
            losses = context.simulation.clients_at_once.backward(*chunk.matrices(places), *stacked_batches(steps))
        for one, loss in zip(steps, losses.unbind(), strict=True):
            one.advance(loss)
        with torch.no_grad():
            context.setup.local.apply(run[0].stretch.sides(places), context.plan.lr)
            context.keep_momenta(run)
