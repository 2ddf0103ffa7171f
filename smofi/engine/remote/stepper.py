"""Steps of clients on other machines: a pass as soon as its activation is there, an update as soon as it may be made.

    client j    forward -->            <-- cut gradient: backward, update, forward -->
    server               pass of row j     update of row j, where momenta are fused not before m̄ is known

The server answers a client as soon as its cut gradient is known, whatever the others do. If no other waits, the
gradients of the server's own weights come after that. Where each client has a server row of its own, it may then be a
step ahead of the slowest; where clients meet only at the end of the round, any number of steps; and a pool computes the
passes of several at a time. Where they share a server model, it visits them in the order of the schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed, wait
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import client_cut_gradients
from smofi.engine.cohort.steps import naming_clients
from smofi.engine.finite import all_finite
from smofi.engine.noise import ON_SERVER
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Links, Lost
from smofi.engine.remote.messages import CutGradient, Output, Rest, Up
from smofi.engine.remote.row import RemoteRow
from smofi.engine.round import NonFinite
from smofi.errors import SmofiError

Lose = Callable[[int], None]
"""lose(row): this client takes no further step."""


class NobodyLeft(SmofiError):
    """All clients of a round are lost: nothing comes of it."""


class RemoteStepper:
    """The passes and updates of a round's rows, driven by the messages of their clients."""

    def __init__(
        self,
        context: RoundContext,
        links: Links,
        crossings: dict[int, Crossing],
        patience: float | None,
        lose: Lose,
        pool: Executor | None = None,
        weights_later: bool = False,
    ) -> None:
        """`crossings` are by row; a client that does not answer within `patience` seconds is lost. `weights_later`: it
        may get its answer before the weights' gradients are computed."""
        self.context, self.setup, self.links, self.lose = context, context.setup, links, lose
        self.crossings, self.patience, self.pool = crossings, patience, pool
        self.rows: dict[int, RemoteRow] = {}
        self.by_client: dict[int, RemoteRow] = {}
        self.shared = self.setup.method.where.one_server
        # an average of server rows is a barrier for those that are ahead
        self.may_go_ahead = self.setup.method.placement is None
        self.squares = bool(self.setup.local.model_wide_limits)
        self.weights_later = weights_later and not self.squares  # |g|² goes with the answer
        self.reasons: dict[int, str] = {}
        self.diverged = 0
        self.idle = True
        """Whether the server waited for the message that came last."""

    @property
    def alive(self) -> list[RemoteRow]:
        """The rows whose clients are still there."""
        return [row for row in self.rows.values() if row.row not in self.reasons]

    def open(self, chunk: Chunk) -> None:
        """Every client gets its columns and begins with its first step."""
        self.rows = {
            row: RemoteRow(row, chunk.members[row], self.crossings[row], self.context) for row in sorted(chunk.members)
        }
        self.by_client = {one.client: one for one in self.rows.values()}
        for one in self.rows.values():
            one.asked()
            self.links.send(one.client, one.begin(), one.crossing.expects_activation(one.plan, 0, square=False))

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group."""
        present = [[self.rows[row] for row in group if row not in self.reasons] for group in groups]
        for group in present:
            for one in group:
                one.target += 1
        if self.shared:
            for group in present:
                self._visit(group)
            return
        due = [one for group in present for one in group]
        self._go_on(due)
        self._wait_until(lambda: all(one.updates >= one.target for one in due if one.row not in self.reasons))

    def collect(self) -> None:
        """Wait until every client has sent its columns, and write them to their rows."""
        self._wait_until(lambda: all(one.finished for one in self.alive))
        for one in self.alive:
            one.take_columns()

    # Passes and updates

    def _go_on(self, rows: Sequence[RemoteRow]) -> None:
        """Whatever can be done for clients with server rows of their own is done."""
        while True:
            rows = self._of(rows)
            for one in rows:
                if one.updates < one.steps.done and self._may_update(one):
                    one.update()
            due = [one for one in rows if one.returned or (one.activation and self._may_pass(one))]
            if not due:
                return
            self._passes([[one] for one in due])

    def _passes(self, groups: Sequence[Sequence[RemoteRow]]) -> None:
        """A pass of each group, and what follows from it as soon as it is done; of several at a time in a pool."""
        with self.context.kernels():
            if self.pool is None or len(groups) == 1:
                for group in groups:
                    self._pass(group, answer_first=self.weights_later and (self.shared or self.idle))()
                    self._complete(group)
                return
            computing = {self.pool.submit(self._pass, group): group for group in groups}
            try:
                for computed in as_completed(computing):
                    computed.result()()
                    self._complete(computing[computed])
            finally:
                wait(computing)  # if one fails, the others still write to their rows

    def _complete(self, group: Sequence[RemoteRow]) -> None:
        """The gradients of the server's weights are there; no update is made from what is no longer a number."""
        lost = group[0].row in self.reasons and not self.shared
        if not lost and not group[0].compute_weights():
            self._refuse_step(group, "the gradient")

    def _may_pass(self, one: RemoteRow) -> bool:
        return one.updates == one.steps.done and (one.steps.done < one.target or self.may_go_ahead)

    def _may_update(self, one: RemoteRow) -> bool:
        in_time = self.context.fusion is None or one.steps.done <= one.target
        return in_time and (not self.squares or one.square is not None)

    def _visit(self, group: list[RemoteRow]) -> None:
        """The server model's pass on the activations of a group, and its update."""
        self._wait_until(lambda: all(one.activation for one in self._of(group)))
        if not (group := self._of(group)):
            return
        self._passes([group])
        if group[0].cut.u_shaped:
            self._wait_until(lambda: all(one.returned for one in self._of(group)))
            if not self._of(group):
                return  # nothing has come back
            self._passes([group])
        if self.squares:
            self._wait_until(lambda: all(one.square is not None for one in self._of(group)))
        first = group[0]
        if self.squares and first.square is None:
            first.void()
        else:
            first.update()
        for one in group:
            one.updates = one.steps.done

    def _of(self, group: Sequence[RemoteRow]) -> list[RemoteRow]:
        return [one for one in group if one.row not in self.reasons]

    def _pass(self, group: Sequence[RemoteRow], answer_first: bool = False) -> Callable[[], None]:
        """The server's pass, as far as it goes: to the cut gradients, or in the U shape to its output and, when the
        clients have returned its gradient, from there; with `answer_first`, the gradients of its weights are still to
        come. Returns what is to be done next."""
        first, steps = group[0], [one.steps for one in group]
        with naming_clients(steps):
            if any(one.returned for one in group):
                returned = [one.take_returned() for one in group]
                first.server.backward([gradient for _, gradient in returned])
                return partial(self._answer, group, [loss for loss, _ in returned])
            arrived = [one.take_activation() for one in group]
            self.context.reseed(first.steps.seed + ON_SERVER)
            with first.later if answer_first else nullcontext():
                output = first.server.forward([activation for activation, _ in arrived], [one.keys for one in steps])
            if first.cut.u_shaped:
                return partial(self._send_output, group, output)
            loss = first.server.loss([targets for _, targets in arrived if targets is not None])
            return partial(self._answer, group, [loss] * len(group))

    def _send_output(self, group: Sequence[RemoteRow], output: Tensor) -> None:
        """U shape: every client of the group gets its part of the server's output."""
        if not all_finite(output):
            self._refuse_step(group, "the server's output")
            return
        sizes = [one.plan.batch_size for one in group]
        for one, own in zip(group, output.split(sizes), strict=True):
            one.asked()
            expected = one.crossing.expects_returned(one.plan, one.steps.done)
            message = Output(one.plan.round, one.steps.done, own, one.plan.batch_size / sum(sizes))
            self.links.send(one.client, message, expected)

    def _answer(self, group: Sequence[RemoteRow], losses: Sequence[Tensor]) -> None:
        """Every client of the group gets its cut gradient, and goes on."""
        first, sizes = group[0], [one.plan.batch_size for one in group]
        cut_gradient = first.server.cut_gradient()
        if what := _non_finite(losses, cut_gradient):
            self._refuse_step(group, what)
            return
        if self.squares and not first.compute_weights():
            self._refuse_step(group, "the gradient")
            return
        gradients = client_cut_gradients(cut_gradient, sizes)
        with torch.no_grad():
            square = float(self.setup.local.limited(first.server.columns)) if self.squares else None
        for one, gradient, loss in zip(group, gradients, losses, strict=True):
            step, lost = one.steps.done, one.row in self.reasons
            one.steps.advance(None if lost else loss)
            if lost:
                continue
            one.asked()
            last = one.steps.done == one.plan.steps
            crossing, squares = one.crossing, self.squares
            expected = (
                crossing.expects_finished(one.plan, squares)
                if last
                else crossing.expects_activation(one.plan, one.steps.done, squares)
            )
            self.links.send(one.client, CutGradient(one.plan.round, step, gradient, square), expected)

    def _refuse_step(self, group: Sequence[RemoteRow], what: str) -> None:
        """A client with a server row of its own goes; where the server model is shared, the run has diverged."""
        one = group[0]
        if self.shared:
            raise NonFinite(f"{what} became non-finite in {one.under_way}", one.client)
        self._drop(one, f"{what} became non-finite", diverged=True)

    # Messages, and those that do not come

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while not done():
            found = self.links.receive(0.0)
            self.idle = found is None
            found = found or self.links.receive(self._time_left())
            if found is None:
                self._drop_late()
                continue
            rows = [self._take(*found)]
            while self.pool and (found := self.links.receive(0.0)):  # what is there may be computed at a time
                rows.append(self._take(*found))
            if not self.shared:
                self._go_on([one for one in rows if one])

    def _take(self, client: int, message: Up | Lost) -> RemoteRow | None:
        """The row that a message is for; None if its client is left out, or lost by this."""
        one = self.by_client.get(client)
        if one is None or one.row in self.reasons:
            return None
        if isinstance(message, Lost):
            self._drop(one, message.reason, message.diverged)
            return None
        one.answered(message)
        return one

    def _time_left(self) -> float | None:
        """Until the first client is too late."""
        since = [one.since for one in self.alive if one.since is not None]
        if self.patience is None or not since:
            return None
        return max(0.0, min(since) + self.patience - time.monotonic())

    def _drop_late(self) -> None:
        assert self.patience is not None
        now = time.monotonic()
        for one in self.alive:
            if one.since is not None and now - one.since >= self.patience:
                self._drop(one, f"it did not answer within {self.patience:g} s")

    def _drop(self, one: RemoteRow, reason: str, diverged: bool = False) -> None:
        """The round goes on without this client, if there is another."""
        self.reasons[one.row] = reason
        self.diverged += diverged
        one.forget()
        self.links.send(one.client, Rest(one.plan.round, reason))
        self.lose(one.row)
        if 2 * self.diverged > len(self.rows):  # a few may be broken or hostile; if most are, it is the run
            raise NonFinite(f"what most clients compute became non-finite in {one.under_way}", one.client)
        if not self.alive:
            raise NobodyLeft(f"no client is left in round {one.plan.round + 1}: the last one was lost because {reason}")


def _non_finite(losses: Sequence[Tensor], gradient: Tensor) -> str | None:
    """What of a step is no longer a number: others must not get it through a model or a momentum that they share."""
    named = {"the training loss": losses, "the gradient at the cut": [gradient]}
    broken = (what for what, tensors in named.items() if not all(map(all_finite, tensors)))
    return next(broken, None)
