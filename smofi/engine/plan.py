"""What a round will do, decided before it starts: who takes part, how many steps, with which cut and weight.

Nothing here depends on where the rows live, and nothing on how long this machine takes; selection and batches do not
depend on the method either, unless the method selects. A clock times devices that are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from smofi.cut import Cut, Cuts
from smofi.errors import InputError
from smofi.method import Candidates, Method, Tick, Turnout
from smofi.seeds import generator

MOST_ATTEMPTS = 1000
"""To begin a round with devices that come and go."""


@dataclass(frozen=True)
class RoundTime:
    """How long a round takes on the clients' devices. Seconds count from the beginning of the run. Lists have an entry
    per row: bytes sent and received, and the share of its time that a client waits. `left_out` are the clients that are
    not part of the new model: gone, or too late."""

    began: float
    ended: float
    bytes_up: list[int]
    bytes_down: list[int]
    idle: list[float]
    left_out: list[int]


@dataclass(frozen=True)
class ClientPlan:
    """A client's line of a round's plan: all that it needs to know to take its steps."""

    seed: int
    round: int
    client: int
    steps: int
    batch_size: int


@dataclass(frozen=True)
class RoundPlan:
    """One round. Lists have an entry per row, that is per client that takes part; `round` counts from 0.

    With a clock, `steps` are those that devices get done, and `shares` those of the clients that are part of the
    average in the end; until then, what was planned is what counts. `landed` is as in `Turnout`, and `time` is what it
    all takes. `may_be_late` tells that there is a deadline, which a client may miss.
    """

    seed: int
    round: int
    lr: float
    clients: list[int]
    batch_sizes: list[int]
    epoch_steps: list[int]
    steps: list[int]
    shares: list[float]
    planned_steps: list[int]
    planned_shares: list[float]
    cuts: list[Cut]
    landed: tuple[tuple[int, ...], ...] | None = None
    time: RoundTime | None = None
    may_be_late: bool = False

    def of_client(self, row: int) -> ClientPlan:
        """What concerns one client."""
        return ClientPlan(self.seed, self.round, self.clients[row], self.steps[row], self.batch_sizes[row])

    def ticks(self, method: Method) -> Iterator[Tick]:
        """The steps of the round, as the method's placement orders them."""
        turnout = Turnout(self.steps, self.epoch_steps, self.planned_steps, self.landed)
        return method.where.schedule(turnout, lambda step: generator(self.seed, "visits", self.round, step))

    def only(self, rows: Sequence[int]) -> RoundPlan:
        """The same with some of its rows, all of them on time."""
        lists = {name: value for name, value in vars(self).items() if isinstance(value, list)}
        some: dict[str, Any] = {name: [value[row] for row in rows] for name, value in lists.items()}
        return replace(self, **some, landed=None, time=None)

    def ticks_of(self, rows: Sequence[int]) -> Iterator[Tick]:
        """The steps of these rows alone, where they need not wait for anyone."""
        for step in range(max((self.steps[row] for row in rows), default=0)):
            yield Tick([(row,) for row in rows if step < self.steps[row]])

    @cached_property
    def absences(self) -> dict[tuple[int, int], bool]:
        """After which of its steps, counted from 1, a row misses the next tick, if there is one; does it come back?"""
        if self.landed is None:
            last = max(self.steps, default=0)
            return {(row, steps): False for row, steps in enumerate(self.steps) if steps < last}
        ticks: dict[int, list[int]] = {}
        for number, rows in enumerate(self.landed):
            for row in rows:
                ticks.setdefault(row, []).append(number)
        late = {
            (row, step): True
            for row, own in ticks.items()
            for step, (this, following) in enumerate(pairwise(own), start=1)
            if following > this + 1
        }
        return late | {(row, len(own)): False for row, own in ticks.items() if own[-1] < len(self.landed) - 1}


class Timekeeper(Protocol):
    """Knows the clients' devices."""

    def speeds(self, clients: Sequence[int], cuts: Sequence[Cut]) -> list[float]:
        """Samples a second, of each client."""
        ...

    def present(self, clients: Sequence[int], now: float) -> tuple[float, list[int]]:
        """Those that are there; the time, later if none is there now."""
        ...

    @property
    def remarks(self) -> list[str]:
        """What a user should know before the run."""
        ...

    @property
    def fingerprint(self) -> str:
        """The same for the same devices."""
        ...

    @property
    def waits_for_all(self) -> bool:
        """Whether there is no deadline that a client could miss."""
        ...

    def settle(self, plan: RoundPlan, now: float) -> tuple[RoundPlan, float]:
        """The plan as it comes about on these devices, with the time it takes; when it ends."""
        ...


@dataclass(frozen=True)
class RoundSettings:
    """What a user decides about every round: who takes part, and how clients train. The learning rate of round n, from
    0, is `lr * lr_decay**n`."""

    seed: int
    participation: float
    local_epochs: int
    batch_size: int
    lr: float
    lr_decay: float = 1.0


@dataclass(frozen=True)
class Planner:
    """Makes the plan of any round; a function of the seed and the round's number alone, and of the time of the day
    where devices come and go.

    `sizes` are the clients' numbers of samples, `speeds` their relative speeds, by which a method may size batches.
    `class_counts` (client -> samples of each class) and `sample_bytes` (cut -> bytes that cross it) are for methods
    that select clients.
    """

    sizes: Sequence[int]
    cuts: Cuts
    method: Method
    settings: RoundSettings
    speeds: Sequence[float] | None = None
    clock: Timekeeper | None = None
    class_counts: Callable[[int], np.ndarray] | None = None
    sample_bytes: Callable[[Cut], int] | None = None

    @cached_property
    def eligible(self) -> list[int]:
        """The clients that hold at least one batch."""
        return [client for client, size in enumerate(self.sizes) if size >= self.settings.batch_size]

    @property
    def per_round(self) -> int:
        """How many clients take part in a round."""
        return min(len(self.eligible), max(1, round(self.settings.participation * len(self.sizes))))

    @property
    def smallest_batch(self) -> int:
        """The fewest samples that any step of a client will see."""
        return min(
            self._batch_sizes(self.eligible, self.cuts.for_round(self.eligible, seed=self.settings.seed, round=0))
        )

    def plan(self, round: int, now: float = 0.0) -> RoundPlan:
        """The plan of round number `round`, from 0; with a clock, of a round that begins at this time, or as soon as it
        gets anywhere: one in which all leave before their first step does not count."""
        if not self.clock:
            return self.intended(round, self.eligible)
        for _ in range(MOST_ATTEMPTS):
            now, present = self.clock.present(self.eligible, now)
            plan, now = self.clock.settle(self.intended(round, present), now)
            if any(plan.steps):
                return plan
        raise InputError(
            f"availability leaves no client to train with: in {MOST_ATTEMPTS:,} attempts to begin round {round + 1}, "
            "none stayed for a single step"
        )

    def intended(self, round: int, present: list[int]) -> RoundPlan:
        """The same with those who are there, before the clock finds out what comes of it."""
        if self.method.select:
            clients, batch_sizes = self.selected(present, round, at_least_one=True)
        else:
            clients = select_clients(present, self.per_round, seed=self.settings.seed, round=round)
            batch_sizes = self._batch_sizes(clients, self._cuts_of(clients, round))
        sizes = [self.sizes[client] for client in clients]
        # T_j = E floor(|D_j| / B_j), or the same T for all
        epoch_steps = [size // batch for size, batch in zip(sizes, batch_sizes, strict=True)]
        steps = [self.method.steps or self.settings.local_epochs * count for count in epoch_steps]
        # p_j = |D_j| / sum |D|, where the server merges batches B_j / sum B
        weights = batch_sizes if self.method.where.merges else sizes
        shares = [weight / sum(weights) for weight in weights]
        return RoundPlan(
            seed=self.settings.seed,
            round=round,
            lr=self.settings.lr * self.settings.lr_decay**round,
            clients=clients,
            batch_sizes=batch_sizes,
            epoch_steps=epoch_steps,
            steps=steps,
            shares=shares,
            planned_steps=steps,
            planned_shares=shares,
            cuts=self._cuts_of(clients, round),
            may_be_late=self.clock is not None and not self.clock.waits_for_all,
        )

    def _cuts_of(self, clients: Sequence[int], round: int) -> list[Cut]:
        return self.cuts.for_round(clients, seed=self.settings.seed, round=round)

    def _batch_sizes(self, clients: Sequence[int], cuts: Sequence[Cut]) -> list[int]:
        if not self.method.batch_sizes:
            return [self.settings.batch_size] * len(clients)
        if self.clock and not self.speeds:
            speeds = self.clock.speeds(clients, cuts)
        else:
            speeds = [self.speeds[client] if self.speeds else 1.0 for client in clients]
        return self.method.batch_sizes(self.settings.batch_size, speeds, [self.sizes[client] for client in clients])

    def selected(self, present: Sequence[int], round: int, at_least_one: bool = False) -> tuple[list[int], list[int]]:
        """The clients that the method takes of those present, and their batch sizes. If none fits, `at_least_one`
        takes the one that needs least."""
        assert self.method.select
        assert self.class_counts
        assert self.sample_bytes
        order = [int(client) for client in generator(self.settings.seed, "candidates", round).permutation(present)]
        cuts = self._cuts_of(order, round)
        batch_sizes = self._batch_sizes(order, cuts)
        counts = [self.class_counts(client) for client in order]
        candidates = Candidates(order, batch_sizes, counts, [self.sample_bytes(cut) for cut in cuts])
        places = self.method.select(candidates, self.per_round)
        if not places and at_least_one:
            needs = [size * each for size, each in zip(batch_sizes, candidates.sample_bytes, strict=True)]
            places = [needs.index(min(needs))]
        taken = sorted((order[place], batch_sizes[place]) for place in places)
        return [client for client, _ in taken], [size for _, size in taken]


def select_clients(eligible: list[int], count: int, *, seed: int, round: int) -> list[int]:
    """The clients of a round: `count` of the eligible, drawn without replacement, in ascending order.

    >>> select_clients([0, 1, 2], 3, seed=0, round=0)
    [0, 1, 2]
    """
    places = generator(seed, "selection", round).choice(len(eligible), size=min(count, len(eligible)), replace=False)
    return sorted(eligible[place] for place in places)
