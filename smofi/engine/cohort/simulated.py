"""The simulated cohort: gradients client by client or many at once, in this process or in a crew of several."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from smofi.cut import Cut, regions
from smofi.data.augment import Augment
from smofi.data.samples import Samples
from smofi.engine.at_once.choice import Choice
from smofi.engine.at_once.many import Many
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.local import LocalStep, Part
from smofi.engine.cohort.member import Hold, Member, batches_of
from smofi.engine.cohort.noise import give_keys, reseeder
from smofi.engine.cohort.one_server import Crossing, OneServer
from smofi.engine.cohort.rows import change_from
from smofi.engine.cohort.split import Cast, Loss, Sides, Wire, direct, split_backward
from smofi.engine.cohort.sums import Sums
from smofi.engine.cohort.table import Table
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.diagnostics import Diagnostics
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.crew import Alone, Crew, deal
from smofi.engine.state import GlobalState
from smofi.errors import ClientError, SmofiError
from smofi.flat import Layout, shell
from smofi.method import Method, Tick
from smofi.models.dropout import dropouts
from smofi.optim import Optimizer


class SimulatedCohort:
    """Rows and models of a round's clients: all in this process, or those that fell to it in a crew of several.

    Where clients meet only at the end of a round, they run one after the other in one row, added up as they finish; or,
    if so chosen, several beside each other.
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
        cast: Cast = nullcontext,
        compiled: bool = False,
    ) -> None:
        self.template, self.layout, self.state = model, layout, state
        self.method, self.optimizer = method, optimizer
        self.clients, self.loss, self.wire = clients, loss, wire
        self.diagnostics = diagnostics
        self.augment = augment
        self.crew: Crew = crew or Alone()
        self.cast = cast
        self.compiled = compiled
        self.choice = Choice()
        self.dropout = bool(dropouts(model))
        self.local = LocalStep(method, optimizer)
        self.reseed = reseeder(state.weights.device)
        self.release()

    @property
    def together(self) -> bool:
        """Whether a round's clients must advance step by step beside each other, each in a row of its own."""
        return self.method.coupled or self.diagnostics is not None

    @property
    def at_once(self) -> int:
        return self.choice.at_once

    @property
    def shares_server(self) -> bool:
        """Whether the first process has the server model of clients that others compute."""
        return self.method.where.one_server and self.crew.size > 1

    def release(self) -> None:
        """Let go of all rows, as before the first round."""
        self.table = Table(self.template, self.layout, self.state, self.method, self.optimizer)
        self.members: dict[int, Member] = {}
        self.fusion: Fusion | None = None

    def begin(self, plan: RoundPlan) -> None:
        """Nothing is added up yet, and it is settled who computes whose gradients."""
        self.plan = plan
        mine = deal(plan.steps, self.crew.size)[self.crew.rank]
        if self.at_once:  # alike and long ones first, so that those still active are neighbours
            mine.sort(key=lambda row: (str(plan.cuts[row]), -plan.steps[row], row))
        size = max(1, len(mine) if self.together else self.at_once)  # a process may have no client at all
        self.chunks = [mine[low : low + size] for low in range(0, len(mine), size)] or [[]]
        self.shares = self.state.weights.new_tensor(plan.shares)
        self.planned_shares = self.state.weights.new_tensor(plan.planned_shares)
        self.regions = regions(plan.cuts)
        self.split = bool(self.wire) or self.method.where.merges or any(cut.u_shaped for cut in plan.cuts)
        pixels = min(self.clients[client].pixels for client in plan.clients)
        self.onednn = suits_onednn(self.template, max(plan.batch_sizes), pixels)
        self.sums = Sums(self.state, len(plan.clients))
        self.fusion = None
        if self.method.fuse and self.optimizer.moments:
            rows = min(self.at_once, len(mine)) or 1
            self.fusion = Fusion(
                self.method.fuse, self.regions, self.layout, self.optimizer.moments, self.state.weights, rows
            )
        if self.diagnostics:
            self.diagnostics.begin(plan, self.method, self.layout, self.optimizer.moments, self.state.weights)

    def ticks(self) -> Generator[Tick, None, None]:
        """The steps of the round, as the method's placement orders them, or client after client."""
        slow = any(self.clients[client].slow for client in self.plan.clients)
        with ThreadPoolExecutor(1) if slow and not self.at_once else nullcontext() as pool:
            for rows in self.chunks:
                self._open(rows, pool)
                yield from self.plan.ticks(self.method) if self.together else self.plan.ticks_of(rows)
                self._close()

    def step(self, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group: gradient, momentum and weights of each of its clients."""
        if self.shares_server:
            everyone = [[self.members[row] for row in group] for group in groups]
            with self._blaming([member for group in everyone for member in group]), convolutions(self.onednn):
                self.one_server.step(everyone, self.server, self.plan.lr)
            return
        own = [[self.members[row] for row in group if row in self.members] for group in groups]
        for members in self._runs(own) if self.at_once else filter(None, own):
            if self.at_once and len(members) >= self.choice.few:
                self._step_at_once(members)
            else:
                self._step_group(members)

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
            taking[rows] = self.planned_shares[rows] / self.planned_shares[rows].sum()
            mine = taking[self.rows]
            weights = self.table.weights.matrix(self.layout.columns(region.first, region.last))
            columns = self.layout.statistic_columns(region.first, region.last)
            statistics, origin = self.table.statistics.matrix(columns), self.state.statistics[columns]
            holders = [place for place, row in enumerate(self.rows) if row in region.holders]
            weights[holders] = self.crew.sum(mine @ weights)
            statistics[holders] = origin + self.crew.sum(mine @ change_from(origin, statistics))
        for member in self.members.values():
            for segment in _held(member).server_part:
                segment.reset()

    def mean(self) -> tuple[Tensor, Tensor]:
        """W̄ = sum_j p_j W_j, and the same for the statistics."""
        weights = self.crew.sum(self.sums.weights)
        if self.diagnostics:
            self.diagnostics.end_round(self.table.weights, self.shares, weights)
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
        none = self.state.weights.new_zeros(0)  # of a client that took no step
        return [self.sums.losses.get(row, none) for row in range(len(self.plan.clients))]

    def diagnosis(self) -> dict[str, float]:
        """What the diagnostics saw in this round, nothing if they are off."""
        return self.diagnostics.summary() if self.diagnostics else {}

    def broken_rows(self) -> list[int]:
        """The rows whose weights are no longer finite."""
        return [int(row) for row in self.crew.sum(self.sums.broken).nonzero()]

    def _open(self, rows: list[int], pool: Executor | None) -> None:
        """Every one of these rows starts from the global weights: W_j <- W."""
        plan, table = self.plan, self.table
        self.rows = rows
        table.open(plan, rows, max(map(len, self.chunks)), self.at_once, self.fusion)
        self.members = {row: self._member(row, pool) for row in rows}
        for place, row in enumerate(rows):
            sides = partial(Sides.of, table.models[place], plan.cuts[row])
            self.members[row].hold = Hold(place, sides, partial(table.parts, slice(place, place + 1)))
        if self.shares_server:
            others = {row: self._member(row, None) for row in range(len(plan.clients)) if row not in self.members}
            self.members = dict(sorted((self.members | others).items()))
            self._share_server(plan.cuts[0])

    def _close(self) -> None:
        """The rows are done; they are added up, and may be used again."""
        if self.rows:
            table = self.table
            shares = self.shares.new_zeros(table.count)  # zero for rows that nobody has at the moment
            shares[: len(self.rows)] = self.shares[self.rows]
            self.sums.add(shares, table.weights, table.statistics, once=float(self.crew.rank == 0))
            for row, finite in zip(self.rows, table.weights.finite(), strict=False):
                self.sums.broken[row] = ~finite
        for row, member in self.members.items():
            if member.losses:
                self.sums.losses[row] = torch.stack(member.losses)
        if self.method.carry:
            self._add_moments()

    def _add_moments(self) -> None:
        one_server = self.method.where.one_server
        for row in self.rows:
            hold = _held(self.members[row])
            self.sums.add_moments(self.plan.shares[row], hold.client_part)
            if not one_server:
                self.sums.add_moments(self.plan.shares[row], hold.server_part)
        if one_server and self.crew.rank == 0:
            self.sums.add_moments(1.0, _held(self.members[self.rows[0]]).server_part)

    def _member(self, row: int, pool: Executor | None) -> Member:
        samples = self.clients[self.plan.clients[row]]
        ahead = pool if samples.slow else None
        return Member.of(self.plan, row, samples, self.state.weights.device, self.dropout, self.augment, ahead)

    def _share_server(self, cut: Cut) -> None:
        sample, _ = self.clients[self.plan.clients[0]].batch(torch.zeros(1, dtype=torch.int64).to(self.shares.device))
        with convolutions(self.onednn):
            crossing = Crossing.of(shell(self.template), cut, sample, self.cast)
        wire = self.wire or direct
        how = self.loss, wire, self.reseed, self.cast
        self.one_server = OneServer(self.crew, self.local, *how, crossing, cut.u_shaped, self.shares, self._blaming)

    def _backward(self, members: list[Member]) -> list[Tensor]:
        """The group's gradients, added to the gradient rows; whole models where a real split would change nothing."""
        if self.split:
            works = [member.next_work() for member in members]
            return split_backward(works, self.loss, self.wire or direct, self.reseed, self.cast)
        (member,) = members
        model = self.table.models[_held(member).place]
        inputs, targets = member.next_batch()
        self.reseed(member.noise[member.step])
        give_keys(model, member.keys)
        with self.cast():
            value = self.forward(model, self.loss, inputs, targets)
        value.backward()
        return [value.detach()]

    def _step_group(self, members: list[Member]) -> None:
        """One step of a group: a client alone, or several that share their server's batch."""
        with self._blaming(members), convolutions(self.onednn):
            losses = self._backward(members)
        for member, loss in zip(members, losses, strict=True):
            member.advance(loss)
        with torch.no_grad():
            if self.diagnostics:
                self.diagnostics.gradient(self.table.gradients, [member.row for member in members])
            self._update(members)
            if self.diagnostics:
                self.diagnostics.momentum(_held(members[0]).server_part)

    def _update(self, members: list[Member]) -> None:
        lr, first = self.plan.lr, _held(members[0])
        if self.method.where.merges:
            self.local.apply([first.server_part], lr)
            for member in members:
                self.local.apply([_held(member).client_part], lr)
            return
        self.local.apply([first.client_part, first.server_part], lr)
        self._keep_momenta(members, first.server_part)

    def _keep_momenta(self, members: list[Member], server_part: Part) -> None:
        """Of clients that have just taken a step, and none in the next tick."""
        if not self.fusion:
            return
        for number, member in enumerate(members):
            if self.plan.landed is not None:
                self.fusion.back(member.row)
            comes_back = self.plan.absences.get((member.row, member.step))
            if comes_back is not None:
                self.fusion.keep(server_part[0].columns, number, member.row if comes_back else None)

    def _runs(self, groups: list[list[Member]]) -> Iterator[list[Member]]:
        """Members in neighbouring rows that can take their next step at once, or one by one where they are too few."""
        runs: list[list[Member]] = []
        for member in sorted((member for group in groups for member in group), key=lambda member: _held(member).place):
            if runs and len(runs[-1]) < self.at_once and self._go_together(runs[-1][-1], member):
                runs[-1].append(member)
            else:
                runs.append([member])
        for run in runs:
            yield from [run] if len(run) >= self.choice.few else [[member] for member in run]

    def _go_together(self, one: Member, next_one: Member) -> bool:
        left, right = _held(one), _held(next_one)
        return (
            right.place == left.place + 1
            and self.plan.cuts[one.row] == self.plan.cuts[next_one.row]
            and one.batch_size == next_one.batch_size
            and (not self.optimizer.counts or left.updates == right.updates)
        )

    def _step_at_once(self, run: list[Member]) -> None:
        """One step of several clients in neighbouring rows, in one pass."""
        places = slice(_held(run[0]).place, _held(run[-1]).place + 1)
        with self._blaming(run):
            losses = self.many.backward(*self.table.matrices(places), *batches_of(run))
        for member, loss in zip(run, losses.unbind(), strict=True):
            member.advance(loss)
        client_part, server_part = self.table.parts(places)
        with torch.no_grad():
            self.local.apply([client_part, server_part], self.plan.lr)
            self._keep_momenta(run, server_part)

    @contextmanager
    def _blaming(self, members: list[Member]) -> Iterator[None]:
        """Name the clients whose step fails."""
        try:
            yield
        except SmofiError:
            raise
        except Exception as error:
            who = ", ".join(str(member.client) for member in members)
            where = f"round {self.plan.round + 1}, step {members[0].step + 1}"
            raise ClientError(f"client {who} failed in {where}: {error}") from error

    @property
    def server(self) -> tuple[nn.Module, Part]:
        """The server's side of this process's first row, and its columns."""
        hold = _held(self.members[self.rows[0]]) if self.rows else None
        return (hold.sides.server, hold.server_part) if hold else (nn.Identity(), [])

    @cached_property
    def forward(self) -> Callable[..., Tensor]:
        """A model's loss on a batch."""
        return torch.compile(_loss_of) if self.compiled else _loss_of

    @cached_property
    def many(self) -> Many:
        return Many(self.template, self.layout, self.loss, self.cast)


def _held(member: Member) -> Hold:
    assert member.hold, "another process computes this client's steps"
    return member.hold


def _loss_of(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensor:
    return loss(model(inputs), targets)
