"""A served run: the rounds of any run, with clients on other machines that may be missing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from smofi.data import Source
from smofi.engine.evaluate import Evaluator, Judges
from smofi.engine.events import Record, RunEnded, Warned
from smofi.engine.plan import Planner, RoundPlan
from smofi.engine.remote.cohort import RemoteCohort
from smofi.engine.remote.links import Expected, Lost
from smofi.engine.remote.messages import Evaluate, Evaluated, Rest
from smofi.engine.remote.stepper import MostDiverged, NobodyLeft
from smofi.engine.round import Cohort, NonFinite
from smofi.engine.run import Run
from smofi.net.journal import LeftOut
from smofi.plural import plural
from smofi.serving.hub import Hub, Stopped

VOID = "the numbers of its clients could not be computed with: the round is void"
WITNESSES = 3
"""A run has diverged when the numbers of this many clients have, or of all that are there: fewer may be hostile."""


@dataclass(frozen=True)
class PresentPlanner(Planner):
    """Plans a round with the clients that are there, once there are `least` of them; without those that are `out` of
    this round."""

    hub: Hub = field(kw_only=True)
    least: int = field(default=1, kw_only=True)
    out: set[int] = field(default_factory=set, kw_only=True)

    @property
    def eligible(self) -> list[int]:
        """The clients that hold at least one batch: there may be more of them than a moment ago."""
        return [client for client, size in enumerate(self.sizes) if size >= self.settings.batch_size]

    def plan(self, round: int, now: float = 0.0) -> RoundPlan:
        """The plan of a round; waits until enough clients are there."""
        self.hub.wait_for(self.missing)
        return self.intended(round, self.present())

    def present(self) -> list[int]:
        """The eligible clients that are there and may take part in this round."""
        here = set(self.hub.present()) - self.out
        return [client for client in self.eligible if client in here]

    def missing(self) -> str | None:
        """What a round waits for: enough clients, and one with enough samples among them."""
        here = len(self.hub.present())
        if here >= self.least:
            which = f"{'other ' if self.out else ''}clients that are here"
            return None if self.present() else f"none of the {which} has a batch of {self.settings.batch_size} samples"
        return short_of(here, self.least)


def short_of(here: int, least: int) -> str:
    """That there are too few clients.

    >>> short_of(1, 3)
    '1 client of the 3 that a round needs is here'
    """
    return f"{plural(here, 'client')} of the {least} that a round needs {'is' if here == 1 else 'are'} here"


class ServedRun(Run):
    """Waits for clients, and repeats a round that all of its clients were lost in."""

    hub: Hub
    planner: PresentPlanner

    def train(self) -> None:
        """All rounds; if the server is stopped between two of them, the run is cut short as by any interruption."""
        try:
            super().train()
        except Stopped as stopped:
            self.cut_short, self.stopped = True, str(stopped)
            self.emit(RunEnded(len(self.history), self.stopped))

    def interrupt(self) -> None:
        """Stop at the end of the current round, or at once if there is none."""
        super().interrupt()
        self.hub.stopping = True

    def one_round(self, plan: RoundPlan) -> Record:
        """As any round. If no client is left, or if the numbers of most are not finite and that may be their doing, the
        state is unchanged and the round is planned anew."""
        try:
            return self._round_with_others(plan)
        finally:
            self.planner.out.clear()

    def _round_with_others(self, plan: RoundPlan) -> Record:
        hub = self.hub
        while True:
            self.before = hub.up.copy(), hub.down.copy()
            for client in plan.clients:
                hub.board.state(hub.roster.names[client], "training")
            try:
                return super().one_round(plan)
            except NobodyLeft as error:
                self._repeat(error, "the round begins anew")
            except NonFinite as error:
                for client in plan.clients:  # what they still owe is of a round that is void
                    hub.send(client, Rest(plan.round, VOID))
                if not isinstance(error, MostDiverged) or self._diverges(error):
                    raise
                self._repeat(f"{error}{self._name_of(error.client)}", "the round begins anew with others")
            plan = self.planner.plan(plan.round)

    def _repeat(self, why: object, how: str) -> None:
        """Say that this round came to nothing; the last thing that is said, if the server is to stop."""
        if self.hub.stopping:
            raise Stopped(f"stopped: {why}")
        self.emit(Warned(f"{why}; {how}"))

    def _diverges(self, error: MostDiverged) -> bool:
        """Whether it is the run: those whose numbers are not finite are left out, and there must be others to try."""
        out = self.planner.out
        out.update(error.clients)
        return len(out) >= WITNESSES or not self.planner.present()

    def _name_of(self, client: int | None) -> str:
        return "" if client is None else f" ({self.hub.roster.names[client]})"

    def seen(self, cohort: Cohort, plan: RoundPlan) -> dict[str, Any]:
        """Bytes as they were sent, and the clients that were lost."""
        assert isinstance(cohort, RemoteCohort)
        hub, (up, down) = self.hub, self.before
        names = [hub.roster.names[client] for client in plan.clients]
        for client, reason in cohort.left_out.items():
            name, number = hub.roster.names[client], plan.round + 1
            self.emit(LeftOut(f"{name} is not part of round {number}: {reason}", name, number, reason))
        for name in names:
            hub.board.bytes(name, hub.up[name], hub.down[name])
            if name in hub.here:
                hub.board.state(name, "waiting")
        return {
            "bytes_up": [hub.up[name] - up[name] for name in names],
            "bytes_down": [hub.down[name] - down[name] for name in names],
            "left_out": sorted(cohort.left_out),
        }


class Elsewhere(Sequence[Any]):
    """The samples of clients, as far as a server knows them: all are like its own."""

    def __init__(self, source: Source) -> None:
        self.pixels, self.slow = source.train.pixels, False

    def __getitem__(self, client: Any) -> Any:
        return self

    def __len__(self) -> int:
        return 0


class FederatedEvaluator(Evaluator):
    """Judges the global model on what the clients hold out: each tells how many samples are right."""

    gives_loss = False

    def __init__(self, run_setup: Any, model: Any, hub: Hub, patience: float | None) -> None:
        super().__init__(model, run_setup.loss, ("top1",), Judges())
        self.setup, self.hub, self.patience = run_setup, hub, patience
        self.rounds = 0

    def evaluate(self) -> tuple[float | None, dict[str, Any]]:
        """The share of all clients' samples that are right, and no loss; nothing if no client answers."""
        weights, statistics = self.setup.layout.pack(self.model)
        hub, number = self.hub, self.rounds
        self.rounds += 1
        asked = [client for client in hub.present() if hub.roster.tests[client]]
        for client in asked:
            most = hub.roster.tests[client]
            hub.send(client, Evaluate(number, weights, statistics), Expected(Evaluated, number, most=most))
        waiting, found = set(asked), dict[int, Evaluated]()
        end = None if self.patience is None else time.monotonic() + self.patience
        while waiting and (answer := hub.receive(None if end is None else max(0.0, end - time.monotonic()))):
            client, message = answer
            waiting.discard(client)
            if not isinstance(message, Lost):
                assert isinstance(message, Evaluated)
                found[client] = message
        for client in waiting:  # too late
            hub.forget(client)
            hub.board.state(hub.roster.names[client], "waiting")
        if not (samples := sum(one.samples for one in found.values())):
            return None, {}
        return None, {"top1": sum(one.correct for one in found.values()) / samples}
