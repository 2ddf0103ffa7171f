"""Steps of clients on other machines: a pass as soon as its activation is there, an update as soon as it may be made.

    client j    forward -->            <-- cut gradient: backward, update, forward -->
    server               pass of row j     update of row j, where momenta are fused not before m̄ is known

The server answers a client as soon as its cut gradient is known, whatever the others do; if it has the time, the
gradients of its own weights come after that. When a pass may be made is said by `own_servers.py`, where each client has
a server row of its own, and by `one_server.py`, where all share one.

No number that is not finite ever reaches another client. Whoever such numbers come from is left out of the round, and
so is a client with a gradient that is out of all proportion, with activations that a pass fails on, or with columns
that are too far from where the round began.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import partial

from torch import Tensor

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import client_cut_gradients
from smofi.engine.cohort.steps import Steps, naming_clients
from smofi.engine.cohort.wire import Compression
from smofi.engine.finite import all_finite
from smofi.engine.noise import ON_SERVER
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Links, Lost
from smofi.engine.remote.messages import CutGradient, Output, Rest, Up
from smofi.engine.remote.proportion import out_of_proportion
from smofi.engine.remote.row import TOO_LARGE, RemoteRow
from smofi.engine.round import NonFinite
from smofi.errors import ClientError, SmofiError

Lose = Callable[[int, bool], None]
"""lose(row, keep): this client takes no further step; `keep` its last momentum in the fusion."""


class NobodyLeft(SmofiError):
    """All clients of a round are lost: nothing comes of it."""


class MostDiverged(NonFinite):
    """The numbers of most clients of a round are not fit to compute with; `clients` are those."""

    def __init__(self, message: str, clients: Sequence[int]) -> None:
        super().__init__(message, clients[-1])
        self.clients = clients


class Unusable(ArithmeticError):
    """What clients have sent cannot be computed with. The `details` are of the server's own code: they are for its log,
    and no client's business."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason, self.details = reason, details


@contextmanager
def usable(clients: Sequence[Steps]) -> Iterator[None]:
    """A pass that fails on the numbers of clients is one that cannot be used."""
    try:
        with naming_clients(clients):
            yield
    except ClientError as error:
        raise Unusable("the server's pass failed on its numbers", str(error)) from error


class RemoteStepper(ABC):
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
        self.squares = bool(self.setup.local.model_wide_limits)
        self.weights_later = weights_later and not self.squares  # |g|² goes with the answer
        self.reasons: dict[int, str] = {}
        self.diverged: list[int] = []
        self.idle = True
        """Whether the server waited for the message that came last."""

    @property
    def alive(self) -> list[RemoteRow]:
        """The rows whose clients are still there."""
        return self._of(list(self.rows.values()))

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
        present = [self._of([self.rows[row] for row in group]) for group in groups]
        for one in (one for group in present for one in group):
            one.target += 1
        self._step(present)

    def collect(self) -> None:
        """Wait until every client has sent its columns, and write them to their rows."""
        self._wait_until(lambda: all(one.finished for one in self.alive))
        for one in self.alive:
            if problem := one.take_columns():
                self._drop(one, problem, diverged=True)
        for one, problem in out_of_proportion(self.alive, self.context.state):
            self._drop(one, problem, diverged=True)

    # What differs

    @abstractmethod
    def _step(self, groups: Sequence[list[RemoteRow]]) -> None:
        """Wait until each group has taken the step that it is to take now."""

    @abstractmethod
    def _arrived(self, rows: Sequence[RemoteRow]) -> None:
        """A message of each of these clients is there."""

    # Passes and answers

    def _of(self, group: Sequence[RemoteRow]) -> list[RemoteRow]:
        """Those of a group that are not lost."""
        return [one for one in group if one.row not in self.reasons]

    def _pass(self, group: Sequence[RemoteRow], answer_first: bool = False) -> Callable[[], None]:
        """The server's pass, as far as it goes: to the cut gradients, or in the U shape to its output and, when the
        clients have returned its gradient, from there; with `answer_first`, the gradients of its weights are still to
        come. Returns what is to be done next; both raise `Unusable` if no client is to be answered."""
        first = group[0]
        with usable([one.steps for one in group]):
            if any(one.returned for one in group):
                returned = [one.take_returned() for one in group]
                first.server.backward([gradient for _, gradient in returned])
                return partial(self._answer, group, [loss for loss, _ in returned])
            arrived = [one.take_activation() for one in group]
            output = self._forward(group, [activation for activation, _ in arrived], answer_first)
            if first.cut.u_shaped:
                return partial(self._send_output, group, output)
            loss = first.server.loss([targets for _, targets in arrived if targets is not None])
            return partial(self._answer, group, [loss] * len(group))

    def _forward(self, group: Sequence[RemoteRow], activations: Sequence[Tensor], answer_first: bool) -> Tensor:
        first = group[0]
        self.context.reseed(first.steps.seed + ON_SERVER)
        with first.later if answer_first else nullcontext():
            return first.server.forward(activations, [one.steps.keys for one in group])

    def _send_output(self, group: Sequence[RemoteRow], output: Tensor) -> None:
        """U shape: every client of the group gets its part of the server's output."""
        self._refuse_broken(group[0], {"the server's output": [output]})
        sizes = [one.plan.batch_size for one in group]
        for one, own in zip(group, output.split(sizes), strict=True):
            one.asked()
            expected = one.crossing.expects_returned(one.plan, one.steps.done)
            message = Output(one.plan.round, one.steps.done, own, one.plan.batch_size / sum(sizes))
            self.links.send(one.client, message, expected)

    def _answer(self, group: Sequence[RemoteRow], losses: Sequence[Tensor]) -> None:
        """Every client of the group gets its cut gradient, and goes on."""
        first, sizes = group[0], [one.plan.batch_size for one in group]
        gradients = client_cut_gradients(first.server.cut_gradient(), sizes)
        self._refuse_broken(first, {"the gradient at the cut": gradients}, losses)
        if self.squares and not first.compute_weights():
            raise Unusable(TOO_LARGE)
        square = first.limited() if self.squares else None
        for one, gradient, loss in zip(group, gradients, losses, strict=True):
            step, lost = one.steps.done, one.row in self.reasons
            one.steps.advance(None if lost else loss)
            if lost:
                continue
            one.asked()
            message = CutGradient(one.plan.round, step, gradient, square)
            self.links.send(one.client, message, one.expects_next(self.squares))

    def _usable(self, one: RemoteRow) -> bool:
        """Whether the gradients of the server's weights can be used, once the clients are answered. Where |g|² went
        with the answer, it was looked at before."""
        return self.squares or one.compute_weights()

    def _refuse_broken(
        self, first: RemoteRow, sent: dict[str, Sequence[Tensor]], losses: Sequence[Tensor] = ()
    ) -> None:
        """A step must not be used if others would get what is no number through anything they share. `sent` has what
        clients are to get: it has to be finite with the bits of the wire, too."""
        wire = self.setup.wire
        for what, tensors in [("the training loss", losses), *sent.items()]:
            if not all(map(all_finite, tensors)):
                raise Unusable(f"{what} became non-finite")
            if isinstance(wire, Compression) and what in sent and not all(map(wire.carries, tensors)):
                raise Unusable(f"{what} became too large for {wire.name}")
        if not first.statistics_finite():
            raise Unusable("a running statistic became non-finite")

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
            self._arrived([one for one in rows if one])

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

    def _drop(self, one: RemoteRow, reason: str, diverged: bool = False, details: str = "") -> None:
        """The round goes on without this client, if there is another. It is told the reason, without the details."""
        self.reasons[one.row] = full = f"{reason} ({details})" if details else reason
        one.forget()
        self.links.send(one.client, Rest(one.plan.round, reason))
        self.lose(one.row, not diverged)
        if diverged:
            self.diverged.append(one.client)
        if 2 * len(self.diverged) > len(self.rows):  # a few may be broken or hostile; if most are, it may be the run
            raise MostDiverged(f"most clients have failed ({full}), the last one in {one.under_way}", self.diverged)
        if not self.alive:
            raise NobodyLeft(f"no client is left in round {one.plan.round + 1}: the last one was lost because {full}")
