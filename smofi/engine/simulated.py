"""The simulated cohort: every client's gradient is computed in this process, client by client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from smofi.cut import Cut, Region, regions
from smofi.data.batches import batch_order
from smofi.data.clients import Samples
from smofi.engine.fusion import Fusion
from smofi.engine.local import LocalStep, Segment
from smofi.engine.noise import reseeder
from smofi.engine.plan import RoundPlan
from smofi.engine.rows import Rows
from smofi.engine.split import Loss, Sides, Wire, Work, direct, split_backward
from smofi.engine.state import GlobalState
from smofi.flat import Columns, Layout, shell
from smofi.method import Method
from smofi.optim import Optimizer
from smofi.seeds import generator


@dataclass
class Member:
    """A client in a round: its model bound to its row, its segments, its batches and how far it has come."""

    client: int
    model: nn.Module
    sides: Sides
    client_part: list[Segment]
    server_part: list[Segment]
    samples: Samples
    order: Tensor
    noise: list[int]
    losses: list[Tensor] = field(default_factory=list)

    @property
    def steps_done(self) -> int:
        return len(self.losses)

    def next_work(self) -> Work:
        """The client's next batch."""
        inputs, targets = self.samples.batch(self.order[self.steps_done])
        return Work(self.client, self.sides, inputs, targets)


class SimulatedCohort:
    """Rows and models of a round's clients, all in this process."""

    def __init__(
        self,
        model: nn.Sequential,
        layout: Layout,
        state: GlobalState,
        method: Method,
        optimizer: Optimizer,
        clients: Sequence[Samples],
        loss: Loss,
        wire: Wire | None,
    ) -> None:
        self.template, self.layout, self.state = model, layout, state
        self.method, self.optimizer = method, optimizer
        self.clients, self.loss, self.wire = clients, loss, wire
        self.local = LocalStep(method, optimizer)
        self.reseed = reseeder(state.weights.device)
        self.models: list[nn.Sequential] = []
        self.bound_to: tuple[int, Cut | None] | None = None

    def begin(self, plan: RoundPlan) -> None:
        """Every row starts from the global weights: W_j <- W."""
        self.plan = plan
        self._bind(len(plan.clients), plan.cuts[0] if self.method.where.one_server else None)
        self.weights.fill(self.state.weights)
        self.statistics.fill(self.state.statistics)
        self.regions = regions(plan.cuts)
        self.split = bool(self.wire) or self.method.where.merges or any(cut.u_shaped for cut in plan.cuts)
        self.fusion = None
        if self.method.fuse and self.optimizer.moments:
            self.fusion = Fusion(
                self.method.fuse, self.regions, self.layout, self.optimizer.moments, self.state.weights
            )
        self.members: list[Member] = []
        for row in range(len(plan.clients)):
            self.members.append(self._member(row))

    def train(self, group: Sequence[int]) -> None:
        """One step of a group: gradient, momentum and weights of each of its clients."""
        members = [self.members[row] for row in group]
        self.reseed(members[0].noise[members[0].steps_done])
        self.gradients.zero()
        if self.split:
            losses = split_backward([m.next_work() for m in members], self.loss, self.wire or direct)
        else:
            work = members[0].next_work()
            value = self.loss(members[0].model(work.inputs), work.targets)
            value.backward()
            losses = [value.detach()]
        for member, loss in zip(members, losses, strict=True):
            member.losses.append(loss)
        with torch.no_grad():
            self._update(members)

    def fuse(self) -> None:
        """End of a tick: m̄ = sum_j weight(age_j) m_j / |J|."""
        if self.fusion:
            self.fusion.fuse(lambda total: total)

    def average_servers(self, active: Sequence[int]) -> None:
        """Every server row continues from the average of the active ones, with a fresh optimizer."""
        for region in self.regions:
            self._average_region(region, [row for row in region.holders if row in active])
        for member in self.members:
            for segment in member.server_part:
                segment.reset()

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        shares = self._shares(range(len(self.members)))
        return self.weights.mean(shares), self.statistics.mean(shares, origin=self.state.statistics)

    def mean_moments(self) -> tuple[Tensor, Tensor]:
        """m = sum_j p_j m_j, and the same for the numbers of updates on the client and on the server."""
        moments, updates = torch.zeros_like(self.state.carried), torch.zeros_like(self.state.carried_updates)
        for member, share in zip(self.members, self.plan.shares, strict=True):
            for side, part in enumerate((member.client_part, member.server_part)):
                updates[side] += share * part[0].updates
                for segment in part:
                    moments[:, segment.columns] += share * torch.stack(segment.moments)
        return moments, updates

    def losses(self) -> list[Tensor]:
        """The training loss of every step, a vector per row."""
        return [torch.stack(member.losses) for member in self.members]

    def broken_rows(self) -> list[int]:
        """The rows whose weights are no longer finite."""
        parts = [[*member.client_part, *member.server_part] for member in self.members]
        return [row for row, part in enumerate(parts) if not all(bool(s.weights.isfinite().all()) for s in part)]

    def _update(self, members: list[Member]) -> None:
        lr = self.plan.lr
        if self.method.where.merges:
            self.local.apply([members[0].server_part], lr)
            for member in members:
                self.local.apply([member.client_part], lr)
            return
        (member,) = members
        self.local.apply([member.client_part, member.server_part], lr)
        if self.fusion:
            self.fusion.add(member.server_part[0].columns, finished=member.steps_done == len(member.order))

    def _average_region(self, region: Region, active: list[int]) -> None:
        if not active:
            return
        shares = self._shares(active)
        for rows, columns in (
            (self.weights, self.layout.columns(region.first, region.last)),
            (self.statistics, self.layout.statistic_columns(region.first, region.last)),
        ):
            held = [rows.of(row, columns) for row in active]
            # origin + sum_j p_j (row_j - origin), so that equal rows stay exactly as they are
            average = held[0] + shares @ (torch.stack(held) - held[0])
            for row in region.holders:
                rows.of(row, columns).copy_(average)

    def _shares(self, rows: Sequence[int]) -> Tensor:
        """p_j of these rows, summing to one."""
        shares = [self.plan.shares[row] for row in rows]
        return self.state.weights.new_tensor([share / sum(shares) for share in shares])

    def _bind(self, count: int, cut: Cut | None) -> None:
        """Allocate the rows and bind a model to each; again only when their number or the shared columns change."""
        if self.bound_to == (count, cut):
            return
        like, layout = self.state.weights, self.layout
        shared = cut.server(layout) if cut else None
        shared_statistics = layout.statistic_columns(cut.first, cut.last) if cut else None
        self.weights = Rows(count, layout.size, like, shared)
        self.statistics = Rows(count, layout.statistics_size, like, shared_statistics)
        self.gradients = Rows(count if self.method.where.merges else 1, layout.size, like, shared)
        self.models += [shell(self.template).train() for _ in range(count - len(self.models))]
        for row, model in enumerate(self.models[:count]):
            layout.bind(model, *(partial(rows.of, row) for rows in (self.weights, self.statistics, self.gradients)))
        self.bound_to = (count, cut)

    def _member(self, row: int) -> Member:
        plan, cut, client = self.plan, self.plan.cuts[row], self.plan.clients[row]
        samples, steps = self.clients[client], plan.steps[row]
        model = self.models[row]
        keys = {"seed": plan.seed, "round": plan.round, "client": client}
        order = batch_order(len(samples), plan.batch_sizes[row], steps, **keys)
        noise = generator(plan.seed, "noise", plan.round, client).integers(2**63, size=steps)
        server = cut.server(self.layout)
        shares_server = self.method.where.one_server and self.members
        return Member(
            client=client,
            model=model,
            sides=Sides(model[: cut.first], model[cut.first : cut.last], model[cut.last :] if cut.u_shaped else None),
            client_part=[self._segment(row, columns, side=0) for columns in cut.client(self.layout)],
            server_part=self.members[0].server_part if shares_server else [self._segment(row, server, side=1)],
            samples=samples,
            order=torch.from_numpy(order).to(self.state.weights.device),
            noise=noise.tolist(),
        )

    def _segment(self, row: int, columns: Columns, side: int) -> Segment:
        """Columns of one row on the client (side 0) or on the server (side 1)."""
        updates = 0.0
        if self.fusion and side == 1:
            prior, moments = self.fusion.view(self.fusion.prior, columns), self.fusion.view(self.fusion.latest, columns)
        elif self.method.carry:
            prior = moments = tuple(self.state.carried[:, columns].clone())
            updates = float(self.state.carried_updates[side])
        else:
            size = columns.stop - columns.start
            prior = moments = tuple(self.state.weights.new_zeros(self.optimizer.moments, size))
        return Segment(
            columns=columns,
            weights=self.weights.of(row, columns),
            gradient=self.gradients.of(row, columns),
            start=self.state.weights[columns],
            prior=prior,
            moments=moments,
            updates=updates,
        )
