"""The simulated cohort: a round's clients, all of them, or those that this worker computes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor

from smofi.cut import Region
from smofi.engine.cohort.chunk import Chunk, Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.rows import change_from
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.steppers import stepper_for
from smofi.engine.cohort.tree_sum import TreeSum, Vectors
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import NOTHING, Branch
from smofi.engine.processes.workers import sum_each
from smofi.method import Tick


class SimulatedCohort:
    """One round of a simulation, as `run_round` drives it.

    Where clients meet only at the end of a round, they run one after the other in one row, added up as they finish; or,
    if the execution says so, several at once.
    """

    def __init__(self, simulation: Simulation, plan: RoundPlan) -> None:
        """Decide which worker computes which clients; nothing is added up yet."""
        self.simulation, self.plan, self.workers = simulation, plan, simulation.workers
        self.setup, self.state = simulation.setup, simulation.state
        at_once = simulation.execution.at_once
        self.branch = Branch.of(plan.steps, self.workers.size, self.workers.rank)
        # alike and long ones first, so that those still active are neighbours
        subtrees = [
            sorted(rows, key=lambda row: (str(plan.cuts[row]), -plan.steps[row], row))
            for rows in self.branch.subtrees(at_once or 1)
        ]
        self.chunks = [subtrees] if simulation.side_by_side else [[rows] for rows in subtrees]
        self.context = RoundContext(simulation, plan, self.branch, min(at_once, max(map(len, subtrees))))
        self.sums = self.context.sums
        self.exchanged = False
        self.stepper = stepper_for(self.context)

    def ticks(self) -> Generator[Tick, None, None]:
        """The steps of the round, as the method's placement orders them, or client after client."""
        simulation = self.simulation
        slow = any(simulation.clients[client].slow for client in self.plan.clients)
        with ThreadPoolExecutor(1) if slow and not simulation.execution.at_once else nullcontext() as pool:
            for subtrees in self.chunks:
                self._open(subtrees, pool)
                alone = self.plan.ticks_of(self.chunk.rows)
                yield from self.plan.ticks(self.setup.method) if simulation.side_by_side else alone
                self._close()

    def step(self, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group: gradient, momentum and weights of each of its clients."""
        if self.context.fusion:
            groups = [(row,) for row in self.context.fusion.begin([row for group in groups for row in group])]
        self.stepper.step(self.chunk, groups)

    def fuse(self) -> None:
        """End of a tick: m̄ = sum_j weight(age_j) m_j / |J|."""
        if self.context.fusion:
            self.context.fusion.fuse(partial(sum_each, self.workers))
        if self.context.diagnostics:
            self.context.diagnostics.end_tick(self.context.fusion)

    def average_servers(self, active: Sequence[int]) -> None:
        """Every server row continues from the average of the active ones, with a fresh optimizer."""
        planned = self.context.planned_shares
        for region in self.context.regions:
            rows = [row for row in region.rows if row in active]
            if rows:
                shares = planned[rows] / planned[rows].sum()
                self._average_region(region, dict(zip(rows, shares.tolist(), strict=True)))
        for member in self.chunk.members.values():
            for segment in member.sides[1]:
                segment.reset()

    def _average_region(self, region: Region, shares: dict[int, float]) -> None:
        """The same for the blocks of a region, given the shares of the rows that are averaged."""
        room, layout, members = self.chunk.room, self.setup.layout, self.chunk.members
        weights = room.weights.matrix(layout.columns(region.first, region.last))
        columns = layout.statistic_columns(region.first, region.last)
        statistics, origin = room.statistics.matrix(columns), self.state.statistics[columns]
        width = weights.shape[1]
        vectors = Vectors(lambda: weights.new_empty(width + len(origin)))
        total = TreeSum(vectors, self.branch, [row for row in shares if row in members])
        for row in total.rows:
            number, place, share = vectors.take(), members[row].place, shares[row]
            torch.mul(weights[place], share, out=vectors[number][:width])
            torch.mul(change_from(origin, statistics[place]), share, out=vectors[number][width:])
            total.add(row, number)
        found = total.result()
        mean = self.workers.sum(torch.full_like(vectors.make(), NOTHING) if found is None else found)
        places = [members[row].place for row in region.rows if row in members]
        weights[places] = mean[:width]
        statistics[places] = origin + mean[width:]

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        averaged = self.sums.averaged()
        self.workers.sum(averaged.vector)
        if self.context.diagnostics:
            self.context.diagnostics.end_round(self.simulation.room.weights, self.context.shares, averaged.weights)
        return averaged.weights, self.state.statistics + averaged.change

    def mean_moments(self) -> tuple[Tensor, Tensor]:
        """m = sum_j p_j m_j, and the same for the number of updates of every block."""
        return self.sums.averaged().moments, self.workers.sum(self.sums.counted())

    def losses(self) -> list[Tensor]:
        """The training loss of every step, a vector per row."""
        self._exchange_losses()
        none = self.state.weights.new_zeros(0)  # of a client that took no step
        return [self.sums.losses.get(row, none) for row in range(len(self.plan.clients))]

    def broken_rows(self) -> list[int]:
        """The rows whose weights are no longer finite."""
        self._exchange_losses()
        return sorted(row for row, broken in self.sums.broken.items() if broken)

    def _exchange_losses(self) -> None:
        if self.workers.size > 1 and not self.exchanged:
            self.exchanged = True
            self.sums.exchange_losses(self.workers, self.plan.steps)

    def diagnosis(self) -> dict[str, float]:
        """What the diagnostics saw in this round, nothing if they are off."""
        return self.context.diagnostics.summary() if self.context.diagnostics else {}

    def _open(self, subtrees: list[list[int]], pool: Executor | None) -> None:
        """Every one of these rows starts from the global weights: W_j <- W."""
        room, simulation = self.simulation.room, self.simulation
        count = max(sum(map(len, chunk)) for chunk in self.chunks)
        room.open(count, simulation.execution.at_once, self.plan.cuts[0])
        own = {row for rows in subtrees for row in rows}
        stepping = range(len(self.plan.clients)) if simulation.shares_server else own
        steps = {row: self.context.steps_of(row, pool if row in own else None) for row in stepping}
        self.chunk = Chunk(room, self.plan, subtrees, steps, bool(self.context.fusion))

    def _close(self) -> None:
        """The rows are done; they are added up, and may be used again."""
        for row in self.branch.in_order(self.chunk.rows):
            self._add(self.chunk.members[row])
        for row, steps in self.chunk.steps.items():
            if steps.losses:
                self.sums.losses[row] = torch.stack(steps.losses)
        if self.setup.method.where.one_server:
            self._add_server()

    def _add(self, member: Member) -> None:
        """p_j W_j and what else a row brings to the averages; not what it shares with all."""
        row, share, room = member.row, self.plan.shares[member.row], self.chunk.room
        brought = self.sums.begin()
        room.weights.weighted(member.place, share, brought.weights)
        room.statistics.weighted_change(member.place, share, self.state.statistics, brought.change)
        self.sums.broken[row] = ~brought.weights.isfinite().all()
        if self.setup.method.carry:
            brought.moments.fill_(NOTHING)
            own_sides = member.sides[:1] if self.setup.method.where.one_server else member.sides
            segments = [segment for side in own_sides for segment in side]
            for segment in segments:
                for moment, out in zip(segment.momentum.moments, brought.moments, strict=True):
                    torch.mul(moment[0], share, out=out[segment.columns])
            self.sums.add_updates(row, share, segments)
        self.sums.add(row)

    def _add_server(self) -> None:
        """What all rows share, once: the first process has it."""
        if self.workers.rank > 0:
            return
        averaged, (columns, weights) = self.sums.averaged(), self.chunk.room.weights.once()
        averaged.weights[columns] = weights
        if not weights.isfinite().all():
            self.sums.broken |= dict.fromkeys(self.chunk.rows, torch.tensor(True))
        columns, statistics = self.chunk.room.statistics.once()
        averaged.change[columns] = change_from(self.state.statistics[columns], statistics)
        if self.setup.method.carry:
            for segment in self.chunk.members[self.chunk.rows[0]].sides[1]:
                averaged.moments[:, segment.columns] = torch.stack([moment[0] for moment in segment.momentum.moments])
                self.sums.counted()[segment.blocks.start : segment.blocks.stop] = segment.updates
