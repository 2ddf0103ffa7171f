"""A method is a value that fills slots of the round; composing methods merges their slots.

    W_j <- W for every client of the round                                  carry       FedNAG: its momentum too
    for each tick of the schedule:                                          placement, steps, batch_sizes
        for each active client j, alone or in a group:
            g = gradient of j's batch through [client part, server part]
            g = pull(g, W_j, W)                                             pull        FedProx
            g = g + lambda W_j                                              decay       the optimizer's, or FedNAR's,
                                                                                        which also limits the sum
            g = g min(1, A / |g|)                                           limit       clip
            m_j = beta (m̄ or m_j) + g ;  W_j -= eta m_j                     the optimizer
        m̄ = sum_j weight(age_j) m_j / |J|                                   fuse        SMoFi
        server columns of all rows <- their average                         placement   SFLV1
    W̄ = sum_j p_j W_j
    W = outer(W, W̄)                                                         outer       FedAvgM, SlowMo, SMoFi

A slot taken twice, or two slots that contradict each other, is an error when composed, never later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from torch import Tensor

from smofi.errors import CompositionError, check_count

Pull = Callable[[Tensor, Tensor, Tensor], None]
"""pull(gradient, weights, start): changes the gradient in place, element by element, so it works on any columns."""

Fuse = Callable[[int], float]
"""fuse(age): the weight in the fused momentum of a client that last contributed `age` steps ago."""

BatchSizes = Callable[[int, Sequence[float], Sequence[int]], list[int]]
"""batch_sizes(batch_size, speeds, sizes): the batch size of each of the round's clients."""


@dataclass(frozen=True)
class Candidates:
    """The clients that a round's are chosen from, in a random order: their batch sizes, how many samples of each class
    they hold, and the bytes that a sample of theirs sends to the server."""

    clients: Sequence[int]
    batch_sizes: Sequence[int]
    class_counts: Sequence[np.ndarray]
    sample_bytes: Sequence[int]


Select = Callable[[Candidates, int], list[int]]
"""select(candidates, most): the places, among the candidates, of at most so many that take part."""


@dataclass(frozen=True)
class Limit:
    """g *= min(1, max_norm / |g|), the norm over the whole model or over each side of the cut alone."""

    max_norm: float
    scope: str = "model"


@dataclass(frozen=True)
class Decay:
    """Weight decay that takes the place of the optimizer's: `rate` (None: the optimizer's own), then a limit."""

    rate: float | None
    limit: Limit


@dataclass(frozen=True)
class Outer:
    """The global update after a round: `update(weights, average, memory, lr)` changes `weights` and `memory` in place.

    `memory` is `[vectors, P]`, zero at first, kept from round to round.
    """

    update: Callable[[Tensor, Tensor, Tensor, float], None]
    vectors: int = 0


@dataclass(frozen=True)
class Tick:
    """One tick of a round: groups of rows that train together, in this order; then the server columns of the rows in
    `average` are averaged, and every row goes on from the average with a fresh server optimizer."""

    groups: list[tuple[int, ...]]
    average: tuple[int, ...] = ()


@dataclass(frozen=True)
class Turnout:
    """Who takes a step when: each row's steps in the round and in an epoch. Where some leave, `planned` has the steps
    they would have taken. Where some are late, `landed` has the rows whose step is done by the end of each tick;
    otherwise a row's steps follow each other tick by tick."""

    steps: Sequence[int]
    epoch_steps: Sequence[int]
    planned: Sequence[int] = ()
    landed: Sequence[Sequence[int]] | None = None

    @property
    def intended(self) -> Sequence[int]:
        """The steps that each row was to take."""
        return self.planned or self.steps

    def each_step(self) -> Iterator[list[int]]:
        """The rows that take a step, tick by tick.

        >>> list(Turnout([3, 1, 2], [3, 1, 2]).each_step())
        [[0, 1, 2], [0, 2], [0]]
        """
        if self.landed is not None:
            yield from map(list, self.landed)
            return
        for step in range(max(self.steps, default=0)):
            yield active_rows(self.steps, step)


Draw = Callable[[int], np.random.Generator]
"""draw(step): the randomness of a step's order."""

Schedule = Callable[[Turnout, Draw], Iterator[Tick]]
"""schedule(turnout, draw): the ticks of a round."""


@dataclass(frozen=True)
class Placement:
    """How many server models there are, and in which order they see the clients.

    `waits` says what clients wait for: at every "step" for the slowest, at every "epoch", until the "round" is over, or
    for their turn, "client" after client.
    """

    schedule: Schedule
    waits: Literal["step", "epoch", "round", "client"] = "round"
    one_server: bool = False
    merges: bool = False
    resets: bool = False


def active_rows(steps: Sequence[int], step: int) -> list[int]:
    """The rows that have a step number `step`, counted from 0.

    >>> active_rows([3, 1, 2], 1)
    [0, 2]
    """
    return [row for row, count in enumerate(steps) if step < count]


def in_parallel(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """A server row per client, all active clients at every step."""
    for rows in turnout.each_step():
        yield Tick([(row,) for row in rows])


PER_CLIENT = Placement(in_parallel)


@dataclass(frozen=True)
class Method:
    """The slots. An empty method is FedAvg.

    >>> compose(Method(name="a", steps=5), Method(name="b")).name
    'a+b'
    """

    name: str = "method"
    pull: Pull | None = None
    decay: Decay | None = None
    limit: Limit | None = None
    fuse: Fuse | None = None
    carry: bool | None = None
    outer: Outer | None = None
    placement: Placement | None = None
    steps: int | None = None
    batch_sizes: BatchSizes | None = None
    select: Select | None = None
    nesterov: bool | None = None

    @property
    def where(self) -> Placement:
        """The placement, a server row per client unless the method says otherwise."""
        return self.placement or PER_CLIENT

    @property
    def waits(self) -> str:
        """What clients wait for, as in `Placement`: to fuse momenta is to wait at every step."""
        return "step" if self.fuse else self.where.waits

    @property
    def coupled(self) -> bool:
        """Whether clients meet before the round is over: momentum is fused, or a server model or its average shared."""
        return bool(self.fuse) or self.placement is not None

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_count("steps", self.steps)

    def __str__(self) -> str:
        return self.name


_CLAIMS = {
    "pull": "pull the gradient",
    "decay": "take over weight decay",
    "limit": "clip the gradient",
    "fuse": "fuse the momentum within a round",
    "carry": "carry momentum from round to round",
    "outer": "own the global update after a round",
    "placement": "decide where the server part trains",
    "steps": "fix the number of local steps",
    "batch_sizes": "choose the batch sizes",
    "select": "choose who takes part in a round",
    "nesterov": "choose the local optimizer",
}


def compose(*methods: Method) -> Method:
    """One method that fills the slots of all; raises CompositionError, in a sentence, if they do not fit together.

    >>> from smofi.methods import fedprox, smofi
    >>> compose(fedprox(0.01), smofi()).name
    'fedprox(mu=0.01)+smofi'
    """
    for method in methods:
        if not isinstance(method, Method):
            raise CompositionError(f"{method!r} is not a method: expected values such as smofi.methods.smofi()")
    if not methods:
        raise CompositionError("nothing to compose: expected at least one method")
    owner: dict[str, Method] = {}
    merged = Method(name="+".join(method.name for method in methods))
    for method in methods:
        for slot in (field.name for field in fields(Method) if field.name != "name"):
            value = getattr(method, slot)
            if value is None:
                continue
            if slot in owner:
                raise CompositionError(
                    f"{owner[slot]} and {method} cannot be combined: both {_CLAIMS[slot]}; leave one of them out"
                )
            owner[slot] = method
            merged = replace(merged, **{slot: value})
    for reason in _contradictions(merged, owner):
        raise CompositionError(reason)
    return merged


def _contradictions(method: Method, owner: dict[str, Method]) -> Iterator[str]:
    placement = method.where
    place = owner.get("placement")
    if method.fuse and placement.one_server:
        yield (
            f"{owner['fuse']} and {place} cannot be combined: {owner['fuse']} fuses the momentum of one server model "
            f"per client, and {place} keeps a single server model for all clients"
        )
    for slot in ("fuse", "carry"):
        if getattr(method, slot) and placement.resets:
            yield (
                f"{owner[slot]} and {place} cannot be combined: {place} resets the server's momentum within the round, "
                f"so there is none to {slot}"
            )
    if method.carry and method.fuse:
        yield (
            f"{owner['carry']} and {owner['fuse']} cannot be combined: {owner['carry']} carries each client's momentum "
            f"into the next round, and {owner['fuse']} starts every round from zero"
        )
    for slot, limit in (("decay", method.decay and method.decay.limit), ("limit", method.limit)):
        if limit and limit.scope == "model" and placement.merges:
            yield (
                f"{owner[slot]} and {place} cannot be combined: {place} trains the server on the merged batch of all "
                f'clients, so no norm spans a client\'s whole model; use scope="part"'
            )
