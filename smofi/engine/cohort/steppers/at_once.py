"""Clients in neighbouring rows in one pass, as long as there are enough of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

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
        plan, at_least = context.plan, context.simulation.execution.at_least
        self.until = at_once_until(plan.steps, list(zip(plan.cuts, plan.batch_sizes, strict=True)), at_least)

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each client that this process has."""
        members = [chunk.members[row] for group in groups for row in group if row in chunk.members]
        subtree = 0
        for run in self._runs(members):
            if self.context.fusion and run[0].subtree != subtree:
                self.context.fusion.leave_scratch()
            subtree = run[0].subtree
            if self._at_once(run[0]):
                self._step_at_once(chunk, run)
            else:
                for member in run:
                    self.one_by_one.step_group([member])

    def _at_once(self, member: Member) -> bool:
        """Whether enough clients of the round are left for this step, in whichever process."""
        return member.steps.done < self.until[member.row]

    def _runs(self, members: list[Member]) -> Iterator[list[Member]]:
        runs: list[list[Member]] = []
        for member in sorted(members, key=lambda member: member.place):
            if runs and self._go_together(runs[-1][-1], member):
                runs[-1].append(member)
            else:
                runs.append([member])
        yield from runs

    def _go_together(self, one: Member, other: Member) -> bool:
        return (
            other.place == one.place + 1
            and (other.stretch, other.subtree) == (one.stretch, one.subtree)
            and one.steps.batch_size == other.steps.batch_size
            and self._at_once(one) == self._at_once(other)
            and (not self.context.setup.optimizer.counts or one.updates == other.updates)
        )

    def _step_at_once(self, chunk: Chunk, run: list[Member]) -> None:
        context, steps = self.context, [member.steps for member in run]
        places = slice(run[0].place, run[-1].place + 1)
        with naming_clients(steps):
            losses = context.simulation.clients_at_once.backward(*chunk.matrices(places), *stacked_batches(steps))
        for one, loss in zip(steps, losses.unbind(), strict=True):
            one.advance(loss)
        sides, fusion = run[0].stretch.updated(places), context.fusion
        with torch.no_grad():
            if fusion:
                (server,) = sides[1]
                server.momentum = fusion.momenta_at_once(run[0].in_subtree, len(run), server.columns)
            context.setup.local.apply(sides, context.plan.lr)
            if fusion:
                for member in run:
                    fusion.add(member.row, member.in_subtree)


def at_once_until(steps: Sequence[int], kinds: Sequence[Hashable], at_least: int) -> list[int]:
    """Up to which of its steps each row is computed at once: as long as `at_least` rows of its kind still take them.

    It depends on the round's plan alone, so that the bits do not depend on which rows a process has.

    >>> at_once_until([5, 1, 4, 2], "aaab", at_least=2)
    [4, 4, 4, 0]
    """
    found = {}
    for kind in set(kinds):
        taken = sorted((count for count, one in zip(steps, kinds, strict=True) if one == kind), reverse=True)
        found[kind] = taken[at_least - 1] if at_least <= len(taken) else 0
    return [found[kind] for kind in kinds]
