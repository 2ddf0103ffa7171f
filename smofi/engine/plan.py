"""What a round will do, decided before it starts: who takes part, how many steps, with which cut and weight.

Nothing here depends on timing or on where the rows live; selection and batches do not depend on the method either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from smofi.cut import Cut, Cuts
from smofi.data.batches import select_clients
from smofi.method import Method, Tick
from smofi.seeds import generator


@dataclass(frozen=True)
class RoundPlan:
    """One round. Lists have an entry per row, that is per client that takes part; `round` counts from 0."""

    seed: int
    round: int
    lr: float
    clients: list[int]
    batch_sizes: list[int]
    epoch_steps: list[int]
    steps: list[int]
    shares: list[float]
    cuts: list[Cut]

    def ticks(self, method: Method) -> Iterator[Tick]:
        """The steps of the round, as the method's placement orders them."""
        return method.where.schedule(
            self.steps, self.epoch_steps, lambda step: generator(self.seed, "visits", self.round, step)
        )

    def only(self, rows: Sequence[int]) -> RoundPlan:
        """The same with some of its rows."""
        lists = {name: value for name, value in vars(self).items() if isinstance(value, list)}
        some: dict[str, Any] = {name: [value[row] for row in rows] for name, value in lists.items()}
        return replace(self, **some)

    def ticks_of(self, rows: Sequence[int]) -> Iterator[Tick]:
        """The steps of these rows alone, where they need not wait for anyone."""
        for step in range(max((self.steps[row] for row in rows), default=0)):
            yield Tick([(row,) for row in rows if step < self.steps[row]])


@dataclass(frozen=True)
class Planner:
    """Makes the plan of any round; a function of the seed and the round's number alone."""

    sizes: Sequence[int]
    participation: float
    batch_size: int
    local_epochs: int
    seed: int
    cuts: Cuts
    method: Method
    lr: float
    lr_decay: float
    speeds: Sequence[float] | None = None

    @cached_property
    def eligible(self) -> list[int]:
        """The clients that hold at least one batch."""
        return [client for client, size in enumerate(self.sizes) if size >= self.batch_size]

    @property
    def per_round(self) -> int:
        """How many clients take part in a round."""
        return min(len(self.eligible), max(1, round(self.participation * len(self.sizes))))

    @property
    def smallest_batch(self) -> int:
        """The fewest samples that any step of a client will see."""
        return min(self._batch_sizes(self.eligible))

    def plan(self, round: int) -> RoundPlan:
        """The plan of round number `round`, from 0."""
        clients = select_clients(self.eligible, self.per_round, seed=self.seed, round=round)
        sizes = [self.sizes[client] for client in clients]
        batch_sizes = self._batch_sizes(clients)
        # T_j = E floor(|D_j| / B_j), or the same T for all
        epoch_steps = [size // batch for size, batch in zip(sizes, batch_sizes, strict=True)]
        steps = [self.method.steps or self.local_epochs * count for count in epoch_steps]
        # p_j = |D_j| / sum |D|, where the server merges batches B_j / sum B
        weights = batch_sizes if self.method.where.merges else sizes
        return RoundPlan(
            seed=self.seed,
            round=round,
            lr=self.lr * self.lr_decay**round,
            clients=clients,
            batch_sizes=batch_sizes,
            epoch_steps=epoch_steps,
            steps=steps,
            shares=[weight / sum(weights) for weight in weights],
            cuts=self.cuts.for_round(clients, seed=self.seed, round=round),
        )

    def _batch_sizes(self, clients: list[int]) -> list[int]:
        if not self.method.batch_sizes:
            return [self.batch_size] * len(clients)
        speeds = [self.speeds[client] if self.speeds else 1.0 for client in clients]
        return self.method.batch_sizes(self.batch_size, speeds, [self.sizes[client] for client in clients])
