"""The simulated cohort: a round's clients, all of them, or those that this worker computes."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from smofi.cut import Region
from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.rows import Terms, change_from, weighted_sum
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.steppers import Stepper, stepper_for
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.cohort.sums import Sums, loss_dtype
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

    fusion: type[Fusion] = Fusion

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
        self.most_rows = max(sum(map(len, chunk)) for chunk in self.chunks)
        self.context = RoundContext(simulation, plan, self.branch, min(at_once, max(map(len, subtrees))), self.fusion)
        first_rows = [min(chain(*chunk), key=self.branch.leaves.__getitem__) for chunk in self.chunks if chunk[0]]
        self.sums = Sums(self.state, self.branch, first_rows)
        self.exchanged = False
        self.stepper = self.make_stepper()

    def make_stepper(self) -> Stepper:
        """The way to take the steps of the round."""
        return stepper_for(self.context)

    def ticks(self) -> Generator[Tick, None, None]:
        """The steps of the round, as the method's placement orders them, or client after client."""
        simulation = self.simulation
        slow = any(simulation.clients[client].slow for client in self.plan.clients)
        with ThreadPoolExecutor(1) if slow and not simulation.execution.at_once else nullcontext() as pool:
            for subtrees in self.chunks:
                self._open(subtrees, pool)
                alone = self.plan.ticks_of(self.chunk.rows)
                yield from self.plan.ticks(self.setup.method) if simulation.side_by_side else alone
                self.close_rows()

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
        terms = self._terms([row for row in shares if row in members], shares)
        mean = weights.new_empty(weights.shape[1] + len(origin))
        mean_weights, mean_change = mean.split([weights.shape[1], len(origin)])
        weighted_sum(weights, terms, mean_weights)
        weighted_sum(statistics, terms, mean_change, origin)
        self.workers.sum(mean)
        places = [members[row].place for row in region.rows if row in members]
        weights[places] = mean_weights
        statistics[places] = origin + mean_change

    def _terms(self, rows: Sequence[int], shares: Sequence[float] | Mapping[int, float]) -> Terms:
        """Rows of the chunk, as they are to be added."""
        rows = self.branch.in_order(rows)
        places = [self.chunk.members[row].place for row in rows]
        return Terms(places, [shares[row] for row in rows], self.branch.joins(rows))

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        averaged = self.sums.averaged()
        self.workers.sum(averaged.vector)
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
        rows, broken = zip(*sorted(self.sums.broken.items()), strict=True)
        return [rows[place] for place in torch.stack(broken).nonzero().flatten().tolist()]

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
        room.open(self.most_rows, simulation.execution.at_once, self.plan.cuts[0])
        own = {row for rows in subtrees for row in rows}
        self.chunk = Chunk(room, self.plan, subtrees, self._steps_of(own, pool), bool(self.context.fusion))

    def _steps_of(self, own: set[int], pool: Executor | None) -> dict[int, ClientSteps]:
        """The steps of this process's rows and, where it has the server model of others, theirs too."""
        stepping = range(len(self.plan.clients)) if self.simulation.shares_server else own
        return {
            row: self.context.steps_of(row, len(own), pool) if row in own else self.context.steps_of(row, 0)
            for row in stepping
        }

    def place(self, row: int) -> int:
        """Where a row lies in memory at the moment, in this process; those of others behind all of its own."""
        member = self.chunk.members.get(row)
        return member.place if member else len(self.chunk.rows)

    def close_rows(self) -> None:
        """The rows at hand are done; they are added up, and may be used again."""
        if self.context.diagnostics:
            self.context.diagnostics.end_round(self.chunk.room.weights, self.context.shares[self.chunk.rows])
        if self.chunk.rows:
            self._add_rows(self.chunk.rows)
        for row, steps in self.chunk.steps.items():
            if steps.losses:
                self.sums.losses[row] = torch.stack(steps.losses).to(loss_dtype(self.state.weights.device))
        if self.setup.method.where.one_server and self.workers.rank == 0:
            self._add_server()

    def _add_rows(self, rows: Sequence[int]) -> None:
        """sum_j p_j W_j, sum_j p_j (S_j - S) and sum_j p_j m_j, but for what all rows share."""
        room, members, brought = self.chunk.room, self.chunk.members, self.sums.begin()
        terms = self._terms(rows, self.plan.shares)
        self.sums.broken |= {row: ~room.weights.finite(members[row].place) for row in rows}
        room.weights.weighted_sum(terms, brought.weights)
        room.statistics.weighted_sum(terms, brought.change, self.state.statistics)
        if self.setup.method.carry:
            self._add_moments(brought.moments, rows)
        self.sums.add(self.branch.in_order(self.chunk.rows)[0])

    def _add_moments(self, out: Tensor, rows: Sequence[int]) -> None:
        """out = sum_j p_j m_j, and the same for the number of updates of every block."""
        vectors = Vectors(lambda: torch.empty_like(out))
        total = TreeSum(vectors, self.branch, rows)
        for row in total.rows:
            number, share, sides = vectors.take(), self.plan.shares[row], self.chunk.members[row].sides
            own = [segment for side in sides[: 1 if self.setup.method.where.one_server else 2] for segment in side]
            vectors[number].fill_(NOTHING)
            for segment in own:
                for moment, into in zip(segment.momentum.moments, vectors[number], strict=True):
                    torch.mul(moment[0], share, out=into[segment.columns])
            total.add(row, number)
            self.sums.add_updates(row, share, own)
        out.copy_(vectors[total.stack[0]])

    def _add_server(self) -> None:
        """What all rows share, once."""
        averaged, (columns, weights) = self.sums.averaged(), self.chunk.room.weights.once()
        averaged.weights[columns] = weights
        if not weights.isfinite().all():
            self.sums.broken |= dict.fromkeys(range(len(self.plan.clients)), torch.tensor(True))
        columns, statistics = self.chunk.room.statistics.once()
        averaged.change[columns] = change_from(self.state.statistics[columns], statistics)
        if self.setup.method.carry:
            for segment in self.chunk.members[self.chunk.rows[0]].sides[1]:
                averaged.moments[:, segment.columns] = torch.stack([moment[0] for moment in segment.momentum.moments])
                self.sums.counted()[segment.blocks.start : segment.blocks.stop] = segment.updates
