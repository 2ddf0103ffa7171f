"""The simulated cohort: a round's clients, all of them, or those that this worker computes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.rows import change_from
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cohort.steppers import stepper_for
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.workers import deal
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
        at_once, mine = simulation.execution.at_once, deal(plan.steps, self.workers.size)[self.workers.rank]
        if at_once:  # alike and long ones first, so that those still active are neighbours
            mine.sort(key=lambda row: (str(plan.cuts[row]), -plan.steps[row], row))
        size = max(1, len(mine) if simulation.side_by_side else at_once)  # a process may have no client at all
        self.chunks = [mine[low : low + size] for low in range(0, len(mine), size)] or [[]]
        self.context = RoundContext(simulation, plan, scratch_rows=min(at_once, len(mine)) or 1)
        self.sums = self.context.sums
        self.stepper = stepper_for(self.context)

    def ticks(self) -> Generator[Tick, None, None]:
        """The steps of the round, as the method's placement orders them, or client after client."""
        simulation = self.simulation
        slow = any(simulation.clients[client].slow for client in self.plan.clients)
        with ThreadPoolExecutor(1) if slow and not simulation.execution.at_once else nullcontext() as pool:
            for rows in self.chunks:
                self._open(rows, pool)
                yield from self.plan.ticks(self.setup.method) if simulation.side_by_side else self.plan.ticks_of(rows)
                self._close()

    def step(self, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group: gradient, momentum and weights of each of its clients."""
        self.stepper.step(self.chunk, groups)

    def fuse(self) -> None:
        """End of a tick: m̄ = sum_j weight(age_j) m_j / |J|."""
        if self.context.fusion:
            self.context.fusion.fuse(self.workers.sum)
        if self.context.diagnostics:
            self.context.diagnostics.end_tick(self.context.fusion)

    def average_servers(self, active: Sequence[int]) -> None:
        """Every server row continues from the average of the active ones, with a fresh optimizer."""
        chunk, layout, planned = self.chunk, self.setup.layout, self.context.planned_shares
        for region in self.context.regions:
            rows = [row for row in region.rows if row in active]
            if not rows:
                continue
            shares = torch.zeros_like(planned)
            shares[rows] = planned[rows] / planned[rows].sum()
            mine = shares[chunk.rows]
            weights = chunk.room.weights.matrix(layout.columns(region.first, region.last))
            columns = layout.statistic_columns(region.first, region.last)
            statistics, origin = chunk.room.statistics.matrix(columns), self.state.statistics[columns]
            places = [place for place, row in enumerate(chunk.rows) if row in region.rows]
            weights[places] = self.workers.sum(mine @ weights)
            statistics[places] = origin + self.workers.sum(mine @ change_from(origin, statistics))
        for member in chunk.members.values():
            for segment in member.sides[1]:
                segment.reset()

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        weights = self.workers.sum(self.sums.weights)
        if self.context.diagnostics:
            self.context.diagnostics.end_round(self.simulation.room.weights, self.context.shares, weights)
        return weights, self.state.statistics + self.workers.sum(self.sums.change)

    def mean_moments(self) -> tuple[Tensor, Tensor]:
        """m = sum_j p_j m_j, and the same for the number of updates of every block."""
        return self.workers.sum(self.sums.moments), self.workers.sum(self.sums.updates)

    def losses(self) -> list[Tensor]:
        """The training loss of every step, a vector per row."""
        if self.workers.size > 1 and not self.sums.exchanged:
            self.sums.exchanged = True
            matrix = self.state.weights.new_zeros(len(self.plan.clients), max(self.plan.steps))
            for row, losses in self.sums.losses.items():
                matrix[row, : len(losses)] = losses
            self.workers.sum(matrix)
            self.sums.losses = {row: matrix[row, :steps] for row, steps in enumerate(self.plan.steps)}
        none = self.state.weights.new_zeros(0)  # of a client that took no step
        return [self.sums.losses.get(row, none) for row in range(len(self.plan.clients))]

    def diagnosis(self) -> dict[str, float]:
        """What the diagnostics saw in this round, nothing if they are off."""
        return self.context.diagnostics.summary() if self.context.diagnostics else {}

    def broken_rows(self) -> list[int]:
        """The rows whose weights are no longer finite."""
        return [int(row) for row in self.workers.sum(self.sums.broken).nonzero()]

    def _open(self, rows: list[int], pool: Executor | None) -> None:
        """Every one of these rows starts from the global weights: W_j <- W."""
        room, simulation = self.simulation.room, self.simulation
        room.open(max(map(len, self.chunks)), simulation.execution.at_once, self.plan.cuts[0])
        stepping = range(len(self.plan.clients)) if simulation.shares_server else rows
        steps = {row: self.context.steps_of(row, pool if row in rows else None) for row in stepping}
        self.chunk = Chunk(room, self.plan, rows, steps, self.context.fusion)

    def _close(self) -> None:
        """The rows are done; they are added up, and may be used again."""
        chunk, room, shares = self.chunk, self.chunk.room, self.context.shares
        if chunk.rows:
            row_shares = shares.new_zeros(room.count)  # zero for rows that no client uses at the moment
            row_shares[: len(chunk.rows)] = shares[chunk.rows]
            self.sums.add(row_shares, room.weights, room.statistics, once=float(self.workers.rank == 0))
            for row, finite in zip(chunk.rows, room.weights.finite(), strict=False):
                self.sums.broken[row] = ~finite
        for row, steps in chunk.steps.items():
            if steps.losses:
                self.sums.losses[row] = torch.stack(steps.losses)
        if self.setup.method.carry:
            self._add_moments()

    def _add_moments(self) -> None:
        one_server, members = self.setup.method.where.one_server, self.chunk.members
        for row, member in members.items():
            client_columns, server_columns = member.sides
            self.sums.add_moments(self.plan.shares[row], client_columns)
            if not one_server:
                self.sums.add_moments(self.plan.shares[row], server_columns)
        if one_server and self.workers.rank == 0:
            self.sums.add_moments(1.0, members[self.chunk.rows[0]].sides[1])
