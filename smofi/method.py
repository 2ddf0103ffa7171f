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

`smofi.composition` merges the slots of several methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from smofi.errors import check_count

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Pull: TypeAlias = "Callable[[Tensor, Tensor, Tensor], None]"
"""pull(gradient, weights, start): changes the gradient in place, element by element, so it works on any columns."""

Fuse = Callable[[int], float]
"""fuse(age): the weight in the fused momentum of a client that last contributed `age` steps ago."""

BatchSizes = Callable[[int, Sequence[float], Sequence[int]], list[int]]
"""batch_sizes(batch_size, speeds, sizes): the batch size of each of the round's clients."""


@dataclass(frozen=True)
class Candidates:
    """The clients that could take part in a round, in a random order; a value per client in every field.

    clients        their numbers
    batch_sizes    the samples in a batch of each
    class_counts   how many samples of each class they have, an array `[classes]` each
    sample_bytes   the bytes that one sample sends to the server

    >>> Candidates(clients=[7, 3], batch_sizes=[8, 4], class_counts=[], sample_bytes=[100, 100]).clients[1]
    3
    """

    clients: Sequence[int]
    batch_sizes: Sequence[int]
    class_counts: Sequence[np.ndarray]
    sample_bytes: Sequence[int]


Select = Callable[[Candidates, int], list[int]]
"""select(candidates, most): the positions, in the lists of `candidates`, of at most `most` clients that take part."""


@dataclass(frozen=True)
class Limit:
    """Clip a gradient: g *= min(1, max_norm / |g|).

    max_norm   the largest norm that a gradient keeps
    scope      "model": the norm of a client's whole model; "part": of each side of the cut alone

    >>> Limit(max_norm=10).scope
    'model'
    """

    max_norm: float
    scope: str = "model"


@dataclass(frozen=True)
class Decay:
    """Weight decay that takes the place of the optimizer's, and is clipped together with the gradient.

    rate    how much of the weights is added to the gradient; None: the optimizer's `weight_decay`
    limit   clips the sum of gradient and decay

    >>> Decay(rate=0.01, limit=Limit(10)).limit.max_norm
    10
    """

    rate: float | None
    limit: Limit


@dataclass(frozen=True)
class Outer:
    """The global update after a round.

    update    update(weights, average, memory, lr) changes the global `weights` in place, given the clients' `average`
              and the local learning rate; it also changes `memory`, `[vectors, P]`, which is zero before the first
              round and kept from round to round
    vectors   how many vectors of the model's size `memory` has

    >>> halfway = Outer(lambda weights, average, memory, lr: weights.lerp_(average, 0.5))
    >>> halfway.vectors
    0
    """

    update: Callable[[Tensor, Tensor, Tensor, float], None]
    vectors: int = 0


@dataclass(frozen=True)
class Tick:
    """One tick of a round.

    groups    the rows that take a step, one group after the other; the rows of a group train on one merged batch
    average   the rows whose server columns are averaged afterwards; every row then goes on from the average with a
              fresh server optimizer. Empty: nothing is averaged

    >>> Tick([(0,), (1,)], average=(0, 1)).groups
    [(0,), (1,)]
    """

    groups: list[tuple[int, ...]]
    average: tuple[int, ...] = ()


@dataclass(frozen=True)
class Turnout:
    """Who takes a step when. A row is a client's position in the round.

    steps         the steps that each row takes in the round
    epoch_steps   the steps in one epoch of each row
    planned       where some clients leave early: the steps that each row was to take; otherwise empty
    landed        where some steps come too late: for each tick, the rows whose step is done by its end; None: the rows
                  take their steps tick by tick

    >>> Turnout(steps=[3, 1], epoch_steps=[3, 1]).intended
    [3, 1]
    """

    steps: Sequence[int]
    epoch_steps: Sequence[int]
    planned: Sequence[int] = ()
    landed: Sequence[Sequence[int]] | None = None

    @property
    def intended(self) -> Sequence[int]:
        """Return the steps that each row was to take."""
        return self.planned or self.steps

    def each_step(self) -> Iterator[list[int]]:
        """Yield the rows that take a step, tick by tick.

        >>> list(Turnout([3, 1, 2], [3, 1, 2]).each_step())
        [[0, 1, 2], [0, 2], [0]]
        """
        if self.landed is not None:
            yield from map(list, self.landed)
            return
        for step in range(max(self.steps, default=0)):
            yield active_rows(self.steps, step)


Draw: TypeAlias = "Callable[[int], np.random.Generator]"
"""draw(step): the random generator that orders the clients of a step."""

Schedule: TypeAlias = "Callable[[Turnout, Draw], Iterator[Tick]]"
"""schedule(turnout, draw): the ticks of a round, one after the other."""


@dataclass(frozen=True)
class Placement:
    """How many server models there are, and in which order they see the clients.

    schedule     gives the ticks of a round
    waits        what clients wait for: the slowest client of every "step" or every "epoch", the end of the "round", or
                 their turn, "client" after client
    one_server   whether there is one server model for all clients, not one for each
    merges       whether the server trains on the merged batch of all clients
    resets       whether the server's optimizers start anew within the round

    >>> Placement(in_parallel).waits
    'round'
    """

    schedule: Schedule
    waits: Literal["step", "epoch", "round", "client"] = "round"
    one_server: bool = False
    merges: bool = False
    resets: bool = False


def active_rows(steps: Sequence[int], step: int) -> list[int]:
    """Return the rows that take step number `step`, counted from 0.

    >>> active_rows([3, 1, 2], 1)
    [0, 2]
    """
    return [row for row, count in enumerate(steps) if step < count]


def in_parallel(turnout: Turnout, draw: Draw) -> Iterator[Tick]:
    """Give every client a server row, and let all active clients take every step."""
    for rows in turnout.each_step():
        yield Tick([(row,) for row in rows])


PER_CLIENT = Placement(in_parallel)


@dataclass(frozen=True)
class Method:
    """A method: a name, and the slots of the round that it fills. An empty method is FedAvg.

    name          how it is written, as "fedprox(mu=0.01)"; `register` sets it
    pull          changes a gradient first, as FedProx does
    decay         takes the place of the optimizer's weight decay, as FedNAR does
    limit         clips the gradient, the last change before the optimizer
    fuse          weighs a client's momentum in the one that all server rows continue from, as SMoFi does
    carry         True: averages the momentum like the weights, and starts the next round from it, as FedNAG does
    outer         updates the global weights after a round; None: they become the average
    placement     says where the server part trains, and in which order; None: a server row per client
    steps         local steps of every client; None: `local_epochs` over the client's own data
    batch_sizes   gives every client a batch size of its own; None: the same for all
    select        chooses the round's clients; None: at random
    nesterov      True: the local optimizer uses Nesterov's look-ahead

    >>> Method(name="mine", steps=5).steps
    5
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
        """Return the placement, a server row per client unless the method says otherwise."""
        return self.placement or PER_CLIENT

    @property
    def waits(self) -> str:
        """Return what clients wait for, as in `Placement`: to fuse momenta is to wait at every step."""
        return "step" if self.fuse else self.where.waits

    @property
    def coupled(self) -> bool:
        """Tell whether clients meet within a round: through fused momentum, or a server model they share."""
        return bool(self.fuse) or self.placement is not None

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_count("steps", self.steps)

    def __str__(self) -> str:
        return self.name
