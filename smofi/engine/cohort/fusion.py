"""Step-wise momentum fusion: one momentum for all server models, in one buffer, whatever the number of clients.

    m̄ = sum_j weight(age_j) m_j / |J|        age_j: steps since j last contributed, 0 while it is active

An active client's momentum is added to `total` the moment it is computed (`LocalStep.apply`, through the views that a
`Stretch` gives to its segments) and then forgotten; `fuse` adds the others and divides. Finished clients of equal
age have equal weight, so their last momenta are kept as one sum per finishing step; that of a late client is kept by
itself, until its next step is done. One that has not taken any step yet counts in |J|, with a momentum of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from smofi.cut import Region
from smofi.engine.plan import RoundPlan
from smofi.flat import Columns, Layout
from smofi.method import Fuse


class Fusion:
    """The fused momentum of the server columns, between the steps of one round.

    `prior` and `total` are `[moments, columns]`; `latest`, `[moments, rows, columns]`, is a scratch for the momenta of
    as many rows as are updated at once.
    """

    def __init__(
        self, weight: Fuse, regions: Sequence[Region], layout: Layout, moments: int, like: Tensor, rows: int = 1
    ) -> None:
        self.weight, self.layout = weight, layout
        self.regions = [(layout.columns(r.first, r.last), len(r.rows)) for r in regions]
        self.low, high = self.regions[0][0].start, self.regions[-1][0].stop
        self.prior = like.new_zeros(moments, high - self.low)
        self.latest = like.new_zeros(moments, rows, high - self.low)
        self.total = torch.zeros_like(self.prior)
        self.last_momenta: dict[tuple[int, int | None], Tensor] = {}
        self.step = 0

    def view(self, buffer: Tensor, columns: Columns) -> tuple[Tensor, ...]:
        """Some columns of one of the buffers, a tensor per moment."""
        return tuple(buffer[..., columns.start - self.low : columns.stop - self.low])

    def after_steps(self, plan: RoundPlan, taken: Sequence[tuple[int, int]]) -> None:
        """Rows have taken a step: each with its number in the round, from 1, in the order of the scratch. Keep the
        momenta of those that take none in the next tick."""
        for scratch_row, (row, step) in enumerate(taken):
            if plan.landed is not None:
                self.forget(row)
            returns = plan.absences.get((row, step))
            if returns is not None:
                self.keep(plan.cuts[row].server(self.layout), scratch_row, row if returns else None)

    def keep(self, columns: Columns, scratch_row: int, late: int | None = None) -> None:
        """Keep the momentum in this row of the scratch: its client takes no step in the next tick. It is finished, or
        it is late, and then `late` is its row in the round."""
        inside = slice(columns.start - self.low, columns.stop - self.low)
        kept = self.last_momenta.setdefault((self.step, late), torch.zeros_like(self.total))
        kept[:, inside] += self.latest[:, scratch_row, inside]

    def forget(self, late: int) -> None:
        """The next step of a late client, by its row in the round, is done: the momentum of its last one counts no
        more."""
        for key in [key for key in self.last_momenta if key[1] == late]:
            del self.last_momenta[key]

    def fuse(self, reduce: Callable[[Tensor], Tensor]) -> None:
        """End the step: `prior` becomes the fused momentum. `reduce` sums over the processes that share the cohort."""
        for (last_step, _), momentum in self.last_momenta.items():
            if last_step < self.step:
                self.total.add_(momentum, alpha=self.weight(self.step - last_step))
        total = reduce(self.total)
        for columns, clients in self.regions:
            inside = slice(columns.start - self.low, columns.stop - self.low)
            torch.div(total[:, inside], clients, out=self.prior[:, inside])
        self.total.zero_()
        self.step += 1
