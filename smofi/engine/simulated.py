"""The simulated cohort: gradients are computed client by client, in this process or in a crew of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import torch
from torch import Tensor, nn

from smofi.cut import Cut, regions
from smofi.data.augment import Augment
from smofi.data.batches import batch_order
from smofi.data.samples import Samples
from smofi.engine.crew import Alone, Crew, deal
from smofi.engine.diagnostics import Diagnostics
from smofi.engine.fusion import Fusion
from smofi.engine.kernels import convolutions, suits_onednn
from smofi.engine.local import LocalStep, Segment
from smofi.engine.noise import give_keys, reseeder
from smofi.engine.plan import RoundPlan
from smofi.engine.rows import Rows, change_from
from smofi.engine.split import Loss, Sides, Wire, Work, direct, split_backward
from smofi.engine.state import GlobalState
from smofi.engine.sums import Sums
from smofi.errors import ClientError
from smofi.flat import Layout, shell
from smofi.method import Method, Tick
from smofi.models.dropout import dropouts, step_keys
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
    dropout: bool
    augment: Augment | None = None
    varied: Tensor | None = None
    losses: list[Tensor] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The number of its next step, from 0."""
        return len(self.losses)

    @property
    def finished(self) -> bool:
        return self.step == len(self.order)

    def next_work(self) -> Work:
        """The client's next batch, and the seed of whatever is random in its step."""
        inputs, targets = self.samples.batch(self.order[self.step])
        if self.augment and self.varied is not None:
            inputs = self.augment.apply(inputs, self.varied[self.step])
        noise = self.noise[self.step]
        keys = step_keys(noise, len(inputs), inputs.device) if self.dropout else None
        return Work(self.client, self.sides, inputs, targets, noise, keys)


class SimulatedCohort:
    """Rows and models of a round's clients: all in this process, or those that fell to it in a crew of several.

    Where clients meet only at the end of a round, they run one after the other in one row, added up as they finish.
    """

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
        diagnostics: Diagnostics | None = None,
        augment: Augment | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.template, self.layout, self.state = model, layout, state
        self.method, self.optimizer = method, optimizer
        self.clients, self.loss, self.wire = clients, loss, wire
        self.diagnostics = diagnostics
        self.augment = augment
        self.crew: Crew = crew or Alone()
        self.dropout = bool(dropouts(model))
        self.local = LocalStep(method, optimizer)
        self.reseed = reseeder(state.weights.device)
        self.models: list[nn.Sequential] = []
        self.bound_to: tuple[int, Cut | None] | None = None

    @property
    def together(self) -> bool:
        """Whether a round's clients must advance step by step beside each other, each in a row of its own."""
        return self.method.coupled or self.diagnostics is not None

    def begin(self, plan: RoundPlan) -> None:
        """Nothing is added up yet, and it is settled who computes whose gradients."""
        self.plan = plan
        if self.method.where.one_server:
            mine = list(range(len(plan.clients))) if self.crew.rank == 0 else []
        else:
            mine = deal(plan.steps, self.crew.size)[self.crew.rank]
        self.chunks = [mine] if self.together else [[row] for row in mine]
        self.shares = self.state.weights.new_tensor(plan.shares)
        self.regions = regions(plan.cuts)
        self.split = bool(self.wire) or self.method.where.merges or any(cut.u_shaped for cut in plan.cuts)
        pixels = min(self.clients[client].pixels for client in plan.clients)
        self.onednn = suits_onednn(self.template, max(plan.batch_sizes), pixels)
        self.sums = Sums(self.state, len(plan.clients))
        self.fusion = None
        if self.method.fuse and self.optimizer.moments:
            self.fusion = Fusion(
                self.method.fuse, self.regions, self.layout, self.optimizer.moments, self.state.weights
            )
        if self.diagnostics:
            self.diagnostics.begin(plan, self.method, self.layout, self.optimizer.moments, self.state.weights)

    def ticks(self) -> Iterator[Tick]:
        """The steps of the round, as the method's placement orders them, or client after client."""
        for rows in self.chunks:
            self._open(rows)
            yield from self.plan.ticks(self.method) if self.together else self.plan.ticks_of(rows)
            self._close()

    def step(self, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group: gradient, momentum and weights of each of its clients."""
        for group in groups:
            members = [self.members[row] for row in group if row in self.members]
            if not members:
                continue
            try:
                with convolutions(self.onednn):
                    losses = self._backward(members)
            except Exception as error:
                who = ", ".join(str(member.client) for member in members)
                where = f"round {self.plan.round + 1}, step {members[0].step + 1}"
                raise ClientError(f"client {who} failed in {where}: {error}") from error
            for member, loss in zip(members, losses, strict=True):
                member.losses.append(loss)
            with torch.no_grad():
                if self.diagnostics:
                    self.diagnostics.gradient(self.gradients, group)
                self._update(members)
                if self.diagnostics:
                    self.diagnostics.momentum(members[0].server_part)

    def fuse(self) -> None:
        """End of a tick: m̄ = sum_j weight(age_j) m_j / |J|."""
        if self.fusion:
            self.fusion.fuse(self.crew.sum)
        if self.diagnostics:
            self.diagnostics.end_tick(self.fusion)

    def average_servers(self, active: Sequence[int]) -> None:
        """Every server row continues from the average of the active ones, with a fresh optimizer."""
        for region in self.regions:
            rows = [row for row in region.holders if row in active]
            if not rows:
                continue
            taking = torch.zeros_like(self.shares)
            taking[rows] = self.shares[rows] / self.shares[rows].sum()
            mine = taking[list(self.members)]
            weights = self.weights.matrix(self.layout.columns(region.first, region.last))
            columns = self.layout.statistic_columns(region.first, region.last)
            statistics, origin = self.statistics.matrix(columns), self.state.statistics[columns]
            holders = [place for place, row in enumerate(self.members) if row in region.holders]
            weights[holders] = self.crew.sum(mine @ weights)
            statistics[holders] = origin + self.crew.sum(mine @ change_from(origin, statistics))
        for member in self.members.values():
            for segment in member.server_part:
                segment.reset()

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        weights = self.crew.sum(self.sums.weights)
        if self.diagnostics:
            self.diagnostics.end_round(self.weights, self.shares, weights)
        return weights, self.state.statistics + self.crew.sum(self.sums.change)

    def mean_moments(self) -> tuple[Tensor, Tensor]:
        """m = sum_j p_j m_j, and the same for the number of updates of every block."""
        return self.crew.sum(self.sums.moments), self.crew.sum(self.sums.updates)

    def losses(self) -> list[Tensor]:
        """The training loss of every step, a vector per row."""
        if self.crew.size > 1 and not self.sums.exchanged:
            self.sums.exchanged = True
            table = self.state.weights.new_zeros(len(self.plan.clients), max(self.plan.steps))
            for row, losses in self.sums.losses.items():
                table[row, : len(losses)] = losses
            self.crew.sum(table)
            self.sums.losses = {row: table[row, :steps] for row, steps in enumerate(self.plan.steps)}
        return [self.sums.losses[row] for row in range(len(self.plan.clients))]

    def diagnosis(self) -> dict[str, float]:
        """What the diagnostics saw in this round, nothing if they are off."""
        return self.diagnostics.summary() if self.diagnostics else {}

    def broken_rows(self) -> list[int]:
        """The rows whose weights are no longer finite."""
        return [int(row) for row in self.crew.sum(self.sums.broken).nonzero()]

    def _open(self, rows: list[int]) -> None:
        """Every one of these rows starts from the global weights: W_j <- W."""
        self._bind(len(rows), self.plan.cuts[0] if self.method.where.one_server else None)
        self.weights.fill(self.state.weights)
        self.statistics.fill(self.state.statistics)
        self.members: dict[int, Member] = {}
        for place, row in enumerate(rows):
            self.members[row] = self._member(place, row)

    def _close(self) -> None:
        """The rows are done; they are added up, and may be used again."""
        if self.members:
            self.sums.add(self.shares[list(self.members)], self.weights, self.statistics)
        for row, member in self.members.items():
            parts = [*member.client_part, *member.server_part]
            self.sums.losses[row] = torch.stack(member.losses)
            self.sums.broken[row] = ~torch.stack([part.weights.isfinite().all() for part in parts]).all()
            if self.method.carry:
                self.sums.add_moments(self.plan.shares[row], parts)

    def _backward(self, members: list[Member]) -> list[Tensor]:
        """The group's gradients, into the gradient rows; whole models where a real split would change nothing."""
        self.gradients.zero()
        if self.split:
            return split_backward([m.next_work() for m in members], self.loss, self.wire or direct, self.reseed)
        (member,) = members
        work = member.next_work()
        self.reseed(work.noise)
        give_keys(member.model, work.keys)
        value = self.loss(member.model(work.inputs), work.targets)
        value.backward()
        return [value.detach()]

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
            self.fusion.add(member.server_part[0].columns, member.finished)

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
        for place, model in enumerate(self.models[:count]):
            layout.bind(model, *(partial(rows.of, place) for rows in (self.weights, self.statistics, self.gradients)))
        self.bound_to = (count, cut)

    def _member(self, place: int, row: int) -> Member:
        plan, cut, client = self.plan, self.plan.cuts[row], self.plan.clients[row]
        samples, steps, model = self.clients[client], plan.steps[row], self.models[place]
        keys = {"seed": plan.seed, "round": plan.round, "client": client}
        order = batch_order(len(samples), plan.batch_sizes[row], steps, **keys)
        noise = generator(plan.seed, "noise", plan.round, client).integers(2**63, size=steps)
        varied = self.augment.draw(steps, plan.batch_sizes[row], **keys) if self.augment else None
        if self.method.where.one_server and self.members:
            server_part = next(iter(self.members.values())).server_part
        else:
            server_part = self._segments(place, range(cut.first, cut.last), self.fusion)
        return Member(
            client=client,
            model=model,
            sides=Sides.of(model, cut),
            client_part=[segment for blocks in cut.client_blocks for segment in self._segments(place, blocks)],
            server_part=server_part,
            samples=samples,
            order=torch.from_numpy(order).to(self.state.weights.device),
            noise=noise.tolist(),
            dropout=self.dropout,
            augment=self.augment,
            varied=varied,
        )

    def _segments(self, place: int, blocks: range, fusion: Fusion | None = None) -> list[Segment]:
        """Blocks of one row: a single segment, unless carried momentum has seen a different number of updates."""
        runs = groupby(blocks, key=lambda block: float(self.state.carried_updates[block]))
        return [self._segment(place, list(run), updates, fusion) for updates, run in runs]

    def _segment(self, place: int, blocks: list[int], updates: float, fusion: Fusion | None) -> Segment:
        columns = self.layout.columns(blocks[0], blocks[-1] + 1)
        if fusion:
            prior, moments = fusion.view(fusion.prior, columns), fusion.view(fusion.latest, columns)
        elif self.method.carry:
            prior = moments = tuple(self.state.carried[:, columns].clone())
        else:
            size = columns.stop - columns.start
            prior = moments = tuple(self.state.weights.new_zeros(self.optimizer.moments, size))
        return Segment(
            blocks=range(blocks[0], blocks[-1] + 1),
            columns=columns,
            weights=self.weights.of(place, columns),
            gradient=self.gradients.of(place, columns),
            start=self.state.weights[columns],
            prior=prior,
            moments=moments,
            updates=updates,
        )
