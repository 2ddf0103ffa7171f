"""Why a method helps: how far clients drift apart in a round, and how far their momenta point the same way.

    update_divergence     sum_j p_j |W_j - W̄| / |W̄ - W|             at the end of the round
    momentum_alignment    mean over ticks, then over active j, of cos(m_j, m̄)     server columns
    stale_share           mean over steps of finished clients' weight in m̄
    gradient_norm, gradient_norm_max        |g_j| over all steps of all clients

Nothing here changes a result, and nothing is read back from the device before the round is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from smofi.cut import regions
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.rows import Rows
from smofi.engine.plan import RoundPlan
from smofi.flat import Layout
from smofi.method import Fuse, Method, Turnout


class Diagnostics:
    """Watches one round of a cohort, which starts from the weights `start`; the optimizer keeps this many moments."""

    def __init__(self, plan: RoundPlan, method: Method, layout: Layout, moments: int, start: Tensor) -> None:
        self.start = start
        self.divergence: Tensor | None = None
        self.squares: list[Tensor] = []
        self.gradients: tuple[Rows, list[list[Tensor]]] | None = None
        aligned = moments and not method.where.one_server
        self.alignment = Alignment(plan, layout, start, fused=bool(method.fuse)) if aligned else None
        self.stale: float | None = None
        if method.fuse and moments:
            self.stale = stale_share(Turnout(plan.steps, plan.epoch_steps, landed=plan.landed), method.fuse)

    def gradient(self, gradients: Rows, places: Sequence[int]) -> None:
        """The gradients of a group's clients, at these places, are computed, and the method has not changed them."""
        if self.gradients is None or self.gradients[0] is not gradients:
            count = max(len(piece) for _, piece in gradients.pieces)
            own = [[piece[row if len(piece) > 1 else 0] for _, piece in gradients.pieces] for row in range(count)]
            self.gradients = gradients, own
        own = self.gradients[1]
        for place in places:
            for vector in own[place if len(own) > 1 else 0]:
                self.squares.append(torch.dot(vector, vector))

    def momentum(self, server_columns: Segments) -> None:
        """An active client's server columns were just updated."""
        if self.alignment:
            self.alignment.add(server_columns)

    def end_tick(self, fusion: Fusion | None) -> None:
        """All active clients have made their step."""
        if self.alignment:
            self.alignment.end_tick(fusion)

    def end_round(self, rows: Rows, shares: Tensor) -> None:
        """The rows have their final weights; these are their shares of the mean."""
        # sum_j p_j |W_j - W̄| / |W̄ - W|; where all share a server model, its columns differ from no mean
        apart, moved = torch.zeros_like(shares), torch.zeros_like(self.start)
        for columns, piece in rows.pieces:
            start = self.start[columns]
            if len(piece) == 1:
                moved[columns] = piece[0] - start
                continue
            for share, row in zip(shares, piece, strict=True):  # by their changes, exactly zero where there is none
                moved[columns] += share * (row - start)
            apart += torch.stack([(row - start - moved[columns]).square().sum() for row in piece])
        self.divergence = (shares * apart.sqrt()).sum() / torch.linalg.vector_norm(moved)

    def summary(self) -> dict[str, float]:
        """The round's measures; one that does not apply, or is not a finite number, is left out."""
        measures: dict[str, float | None] = {
            "update_divergence": None if self.divergence is None else float(self.divergence),
            "momentum_alignment": self.alignment.mean() if self.alignment else None,
            "stale_share": self.stale,
        }
        if self.squares and self.gradients:
            pieces = len(self.gradients[0].pieces)
            norms = torch.stack(self.squares).double().view(-1, pieces).sum(dim=1).sqrt()
            measures |= {"gradient_norm": float(norms.mean()), "gradient_norm_max": float(norms.max())}
        return {name: value for name, value in measures.items() if value is not None and math.isfinite(value)}


class Alignment:
    """The mean cosine between active clients' momenta and m̄, without keeping any client's momentum.

        sum_j cos(m_j, m̄) = u · m̄ / |m̄|        u = sum_j m_j / |m_j|

    One vector u is enough where all clients are cut alike, since m̄ is known only after the last of them; with a cut per
    client, one for each different cut. m̄ is the fused momentum, or the plain mean over active clients where none is.
    A tick in which a momentum is exactly zero has no cosine, and does not count.
    """

    def __init__(self, plan: RoundPlan, layout: Layout, like: Tensor, fused: bool) -> None:
        self.regions = [layout.columns(region.first, region.last) for region in regions(plan.cuts)]
        self.low, high = self.regions[0].start, self.regions[-1].stop
        self.fused, self.total = fused, like.new_zeros(0 if fused else high - self.low)
        spans = {(columns.start, columns.stop) for columns in {cut: cut.server(layout) for cut in plan.cuts}.values()}
        self.directions = {(start, stop): like.new_zeros(stop - start) for start, stop in sorted(spans)}
        self.active = dict.fromkeys(self.directions, 0)
        self.waiting: list[tuple[tuple[int, int], Tensor]] = []
        self.cosines: list[tuple[Tensor, Tensor]] = []
        self.ticks: list[int] = []
        self.counts: list[int] = []

    def add(self, server_columns: Segments) -> None:
        """u += m_j / |m_j|, on the client's server columns (several segments if their updates are counted apart)."""
        span = server_columns[0].columns.start, server_columns[-1].columns.stop
        momentum = server_columns[0].momentum.moments[0][0]
        if len(server_columns) > 1:
            momentum = torch.cat([segment.momentum.moments[0][0] for segment in server_columns])
        self.active[span] += 1
        if self.fused:
            self.directions[span].addcdiv_(momentum, torch.linalg.vector_norm(momentum))
        else:  # it stays as it is until the next tick, and all at once is faster
            self.waiting.append((span, momentum))

    def end_tick(self, fusion: Fusion | None) -> None:
        """m̄ is known: turn the directions into cosines."""
        for span, momentum in self.waiting:
            self._inside(self.total, span).add_(momentum)
            self.directions[span].addcdiv_(momentum, torch.linalg.vector_norm(momentum))
        self.waiting.clear()
        mean = fusion.prior[0] if fusion else self._mean_of_active()
        count = sum(self.active.values())
        for span, direction in self.directions.items():
            if self.active[span]:
                fused = self._inside(mean, span)
                self.cosines.append((torch.dot(direction, fused), torch.dot(fused, fused)))
                self.ticks.append(len(self.counts))
                self.active[span] = 0
                direction.zero_()
        self.counts.append(count)
        self.total.zero_()

    def mean(self) -> float:
        """The mean over ticks of the mean over the clients active in them."""
        dots, squares = (torch.stack(column).double() for column in zip(*self.cosines, strict=True))
        sums = dots.new_zeros(len(self.counts)).index_add_(
            0, torch.tensor(self.ticks).to(dots.device), dots / squares.sqrt()
        )
        return float((sums / sums.new_tensor(self.counts)).nanmean())

    def _inside(self, vector: Tensor, span: tuple[int, int]) -> Tensor:
        return vector[span[0] - self.low : span[1] - self.low] if len(self.directions) > 1 else vector

    def _mean_of_active(self) -> Tensor:
        if len(self.directions) > 1:  # otherwise one factor for all columns, which changes no cosine
            for columns in self.regions:
                clients = sum(
                    count
                    for (start, stop), count in self.active.items()
                    if start <= columns.start and columns.stop <= stop
                )
                self.total[columns.start - self.low : columns.stop - self.low] /= max(1, clients)
        return self.total


def stale_share(turnout: Turnout, weight: Fuse) -> float:
    """The mean, over the steps of a round, of the share of the fused momentum's weight that absent clients have.

    >>> stale_share(Turnout([1, 2], [1, 2]), lambda age: 1.0)
    0.25
    """
    last: dict[int, int] = {}
    shares = []
    for now, rows in enumerate(turnout.each_step()):
        last.update(dict.fromkeys(rows, now))
        stale = sum(weight(now - then) for then in last.values() if then < now)
        shares.append(stale / (stale + weight(0) * len(rows) or 1))
    return sum(shares) / len(shares)
