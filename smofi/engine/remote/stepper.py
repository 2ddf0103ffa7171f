"""Steps of clients on other machines: a pass as soon as its activation is there, an update as soon as it may be made.

    client j    forward -->            <-- cut gradient: backward, update, forward -->
    server               pass of row j     update of row j, where momenta are fused not before m̄ is known

The server answers a client when its own pass is done, whatever the others do. Where each client has a server row of its
own, it may then be a step ahead of the slowest; where clients meet only at the end of the round, any number of steps.
Where they share a server model, it visits them in the order of the schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import client_cut_gradients
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.steps import naming_clients
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
        self, context: RoundContext, links: Links, crossings: dict[int, Crossing], patience: float | None, lose: Lose
    ) -> None:
        """`crossings` are by row; a client that does not answer within `patience` seconds is lost."""
        self.context, self.setup, self.links, self.lose = context, context.setup, links, lose
        self.crossings, self.patience = crossings, patience
        self.rows: dict[int, RemoteRow] = {}
        self.by_client: dict[int, RemoteRow] = {}
        self.shared = self.setup.method.where.one_server
        # an average of server rows is a barrier for those that are ahead
        self.may_go_ahead = self.setup.method.placement is None
        self.squares = bool(self.setup.local.model_wide_limits)
        self.reasons: dict[int, str] = {}
        self.diverged = 0

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
        for one in due:
            self._go_on(one)
        self._wait_until(lambda: all(one.updates >= one.target for one in due if one.row not in self.reasons))

    def collect(self) -> None:
        """Wait until every client has sent its columns, and write them to their rows."""
        self._wait_until(lambda: all(one.finished for one in self.alive))
        for one in self.alive:
            one.take_columns()

    # Passes and updates

    def _go_on(self, one: RemoteRow) -> None:
        """Whatever can be done for a client with a server row of its own is done."""
        while one.row not in self.reasons:
            if one.updates < one.steps.done and self._may_update(one):
                one.update()
            elif one.activation and one.updates == one.steps.done and self._may_pass(one):
                self._forward([one])
            elif one.returned:
                self._backward([one])
            else:
                return

    def _may_pass(self, one: RemoteRow) -> bool:
        return one.steps.done < one.target or self.may_go_ahead

    def _may_update(self, one: RemoteRow) -> bool:
        in_time = self.context.fusion is None or one.steps.done <= one.target
        return in_time and (not self.squares or one.square is not None)

    def _visit(self, group: list[RemoteRow]) -> None:
        """The server model's pass on the activations of a group, and its update."""
        self._wait_until(lambda: all(one.activation for one in self._of(group)))
        if not (group := self._of(group)):
            return
        self._forward(group)
        if group[0].cut.u_shaped:
            self._wait_until(lambda: all(one.returned for one in self._of(group)))
            if not self._of(group):
                return  # nothing has come back
            self._backward(group)
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

    def _forward(self, group: Sequence[RemoteRow]) -> None:
        """The server's pass, as far as it goes: to the cut gradients, or in the U shape to its output."""
        first, steps = group[0], [one.steps for one in group]
        arrived = [one.take_activation() for one in group]
        sizes = [one.plan.batch_size for one in group]
        with naming_clients(steps), self.context.kernels():
            self.context.reseed(first.steps.seed + ON_SERVER)
            output = first.server.forward([activation for activation, _ in arrived], [one.keys for one in steps])
            if not first.cut.u_shaped:
                loss = first.server.loss([targets for _, targets in arrived if targets is not None])
        if not first.cut.u_shaped:
            self._answer(group, [loss] * len(group))
            return
        if not bool(torch.isfinite(output).all()):
            self._refuse_step(group, "the server's output")
            return
        for one, own in zip(group, output.split(sizes), strict=True):
            one.asked()
            expected = one.crossing.expects_returned(one.plan, one.steps.done)
            message = Output(one.plan.round, one.steps.done, own, one.plan.batch_size / sum(sizes))
            self.links.send(one.client, message, expected)

    def _backward(self, group: Sequence[RemoteRow]) -> None:
        """U shape: the way back from the gradients that the clients return; a lost client's is zero."""
        first = group[0]
        returned = [one.take_returned() for one in group]
        with naming_clients([one.steps for one in group]), self.context.kernels():
            first.server.backward([gradient for _, gradient in returned])
        self._answer(group, [loss for loss, _ in returned])

    def _answer(self, group: Sequence[RemoteRow], losses: Sequence[Tensor]) -> None:
        """Every client of the group gets its cut gradient, and goes on."""
        first, sizes = group[0], [one.plan.batch_size for one in group]
        cut_gradient = first.server.cut_gradient()
        if what := _non_finite(losses, cut_gradient, first.server.columns):
            self._refuse_step(group, what)
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
        when = f"round {one.plan.round + 1}, step {one.steps.done + 1} of {one.plan.steps}, client {one.client}"
        if self.shared:
            raise NonFinite(f"{what} became non-finite in {when}", one.client)
        self._drop(one, f"{what} became non-finite", diverged=True)

    # Messages, and those that do not come

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while not done():
            found = self.links.receive(self._time_left())
            if found is None:
                self._drop_late()
            else:
                self._take(*found)

    def _take(self, client: int, message: Up | Lost) -> None:
        one = self.by_client.get(client)
        if one is None or one.row in self.reasons:
            return  # of a client that was left out
        if isinstance(message, Lost):
            self._drop(one, message.reason, message.diverged)
            return
        one.answered(message)
        if not self.shared:
            self._go_on(one)

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
            when = f"round {one.plan.round + 1}, step {one.steps.done + 1} of {one.plan.steps}, client {one.client}"
            raise NonFinite(f"what most clients compute became non-finite in {when}", one.client)
        if not self.alive:
            raise NobodyLeft(f"no client is left in round {one.plan.round + 1}: the last one was lost because {reason}")


def _non_finite(losses: Sequence[Tensor], gradient: Tensor, columns: Segments) -> str | None:
    """What of a step is no longer a number: others must not get it through a model or a momentum that they share."""
    named = {"the training loss": losses, "the gradient at the cut": [gradient]}
    named["the gradient"] = [segment.gradient for segment in columns]
    broken = (what for what, tensors in named.items() if not all(bool(torch.isfinite(one).all()) for one in tensors))
    return next(broken, None)
