"""What clients have to do in a round, how they wait for each other, and how the round went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SERVER = "server"
"""The kind of leg that a client spends on the server; all others are its own: "compute", "up", "down" or "latency"."""

LATENCY = "latency"
"""The kind of leg in which a message is under way, however short it is."""


@dataclass(frozen=True)
class Leg:
    """Part of a step, and the seconds it takes."""

    kind: str
    seconds: float


@dataclass(frozen=True)
class Job:
    """What a client has to do in a round: `fetch` the model, take its steps, and `give` back what it has learnt. It is
    gone at the time `leaves`."""

    step: tuple[Leg, ...]
    steps: int
    epoch_steps: int
    fetch: tuple[Leg, ...] = ()
    give: tuple[Leg, ...] = ()
    leaves: float = math.inf


@dataclass(frozen=True)
class Rules:
    """How clients wait, and how the server works: on `parallel` of them at a time, first come, first served; on one
    after the other in the order of `visits`, a list for every tick; or on all of a tick together (`merges`)."""

    waits: str
    parallel: float = math.inf
    visits: Sequence[Sequence[int]] | None = None
    merges: bool = False
    deadline: float = math.inf


@dataclass(frozen=True)
class Span:
    """What a row did from `start` to `end`; in between, it waited."""

    row: int
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Replayed:
    """How a round went. Lists have an entry per row: its steps, its seconds of work, when it was done, stopped or
    gone, and whether it had left before it could give anything back. `landed` has the rows whose step was done in each
    tick, where clients wait at every step."""

    end: float
    steps: list[int]
    busy: list[float]
    until: list[float]
    gone: list[bool]
    landed: list[list[int]]
    spans: list[Span]
