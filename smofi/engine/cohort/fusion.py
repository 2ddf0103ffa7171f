"""Step-wise momentum fusion: the heart of SMoFi.

    m̄ = sum_j weight(age_j) m_j / |J|        age_j: steps since j last contributed, 0 while it is active

A client's momentum is added the moment it is computed, in the order of the tree, and then forgotten. Clients that take
no step in the next tick are added apart, for their last momentum counts on. Finished clients of equal age have equal
weight, so their momenta are kept as one sum per finishing step; that of a late client is kept by itself, until its next
step is done. One that has not taken any step yet counts in |J|, with a momentum of zero.

Processes that share the cohort exchange the sums of a tick, so that every one of them keeps those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from smofi.cut import regions
from smofi.engine.cohort.local import Momentum
from smofi.engine.cohort.tree_sum import TreeSum, Vectors
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import NOTHING, Branch
from smofi.flat import Columns, Layout
from smofi.method import Fuse

GOING_ON, FINISHING = -2, -1
"""Groups of clients that are added together; any other is the row of a client that will be late."""

Exchange = Callable[[Sequence[Tensor]], object]
"""Sums each of these over the processes that share the cohort, in place."""


class Fusion:
    """The fused momentum of the server columns, `prior` `[moments, columns]`, between the steps of one round.

    `branch` has the rows that this process computes. Up to `at_once` of them are updated in one go, in `scratch`,
    `[moments, at_once, columns]`; otherwise each in a vector `[moments, columns]` that it gets for a step.
    """

    def __init__(
        self, weight: Fuse, plan: RoundPlan, layout: Layout, like: Tensor, branch: Branch, at_once: int = 0
    ) -> None:
        """`like` has the shape `[moments, 0]`, the type and the device of the momenta."""
        self.weight, self.plan, self.branch = weight, plan, branch
        shared = regions(plan.cuts)
        self.regions = [(layout.columns(region.first, region.last), len(region.rows)) for region in shared]
        self.low, self.high = self.regions[0][0].start, self.regions[-1][0].stop
        self.columns = [cut.server(layout) for cut in plan.cuts]
        moments, width = len(like), self.high - self.low
        self.prior = prior = like.new_zeros(moments, width)
        self.scratch = like.new_zeros(moments, at_once, width)
        # of the tensor, not of this object: a cycle of references would keep all of it in memory
        self.vectors = Vectors(lambda: torch.empty_like(prior), self.scratch.unbind(1))
        self.momenta: dict[tuple[int, int, int, int], Momentum] = {}
        self.sums: dict[tuple[int, ...], TreeSum] = {}
        self.groups: dict[int, TreeSum] = {}
        self.kept: dict[tuple[int, int], Tensor] = {}
        self.taken = [0] * len(plan.clients)
        self.step = 0

    def begin(self, rows: Sequence[int]) -> list[int]:
        """A tick begins, in which these rows of the round take a step. Returns those of this process, in an order in
        which few vectors are needed; any other order gives the same bits."""
        for total in self.groups.values():
            total.restart()
        groups: dict[int, list[int]] = {GOING_ON: []}
        for row in rows:
            self.taken[row] += 1
            groups.setdefault(self._group(row), []).append(row)
            if self.plan.landed is not None:
                self._forget(row)
        own = self.branch.leaves
        self.groups = {group: self._sum([row for row in some if row in own]) for group, some in groups.items()}
        self.sum_of = {row: total for total in self.groups.values() for row in total.rows}
        return list(self.sum_of)

    def momentum(self, row: int) -> Momentum:
        """What a step of this row continues from and where its momentum goes, on its server columns."""
        self.lent = self.vectors.take()
        return self._momentum(self.columns[row], self.lent, 1)

    def momenta_at_once(self, first: int, count: int, columns: Columns) -> Momentum:
        """The same for rows that are updated in one go, in places of the scratch."""
        return self._momentum(columns, first, count)

    def add(self, row: int, place: int | None = None) -> None:
        """The row's momentum is written, to the vector lent last, or to this place of the scratch."""
        number, columns = self.lent if place is None else place, self.columns[row]
        if columns.start > self.low or columns.stop < self.high:
            vector = self.vectors[number]
            vector[:, : columns.start - self.low] = NOTHING
            vector[:, columns.stop - self.low :] = NOTHING
        self.sum_of[row].add(row, number)

    def leave_scratch(self) -> None:
        """The scratch is about to be used again, for other rows of this tick."""
        for total in self.groups.values():
            total.move()

    def fuse(self, exchange: Exchange) -> None:
        """End the tick: `prior` becomes the fused momentum."""
        going_on, *others = [self._total(total) for total in self.groups.values()]
        others = [momentum.clone() for momentum in others]
        exchange([going_on, *others])
        fused = going_on
        for (last_step, _), momentum in self.kept.items():
            fused.add_(momentum, alpha=self.weight(self.step - last_step))
        for group, momentum in zip(list(self.groups)[1:], others, strict=True):
            self.kept[self.step, group] = momentum
            fused.add_(momentum)
        for columns, clients in self.regions:
            inside = slice(columns.start - self.low, columns.stop - self.low)
            torch.div(fused[:, inside], clients, out=self.prior[:, inside])
        self.step += 1

    def _group(self, row: int) -> int:
        returns = self.plan.absences.get((row, self.taken[row]))
        return GOING_ON if returns is None else row if returns else FINISHING

    def _forget(self, late: int) -> None:
        """A late client takes its next step: the momentum of its last one counts no more."""
        for key in [key for key in self.kept if key[1] == late]:
            del self.kept[key]

    def _sum(self, rows: list[int]) -> TreeSum:
        key = tuple(rows)
        if key not in self.sums:
            self.sums[key] = TreeSum(self.vectors, self.branch, rows)
        return self.sums[key]

    def _total(self, total: TreeSum) -> Tensor:
        """What has been added up; nothing, if none of the rows are this process's."""
        found = total.result()
        return torch.full_like(self.prior, NOTHING) if found is None else found

    def _momentum(self, columns: Columns, number: int, count: int) -> Momentum:
        key = columns.start, columns.stop, number, count
        if key not in self.momenta:
            inside = slice(columns.start - self.low, columns.stop - self.low)
            prior = tuple(moment.expand(count, -1) for moment in self.prior[:, inside])
            rows = self.vectors[number].unsqueeze(1) if count == 1 else self.scratch[:, number : number + count]
            self.momenta[key] = Momentum(prior, tuple(rows[..., inside]))
        return self.momenta[key]
