"""What virtual time a run keeps, as a user says it, and the clock that keeps it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from smofi.clock.clock import Clock
from smofi.clock.devices import Device, devices_for
from smofi.errors import check_choice, check_count, check_number, refuse
from smofi.flat import Layout
from smofi.method import Method
from smofi.models.costs import Costs
from smofi.optim import Optimizer

CLOCKS = ("none", "paper", "full")


@dataclass(frozen=True)
class Timing:
    """How long rounds take on the clients' devices.

    clock             "none"; "paper" charges computation and what crosses the cut; "full" also the clients' weights
    devices           "phones", drawn from public measurements; a CSV file; or a list of `smofi.Device`, one per client
    availability      "always"; "phones", drawn from public measurements; or a CSV file of traces
    server_speedup    how many times as fast as the mean device the server computes
    server_parallel   how many clients it computes for at a time; None for all
    step_deadline     seconds after which a step goes on without those that are late; for smofi and sflv1, which have a
                      server model per client and wait at every step; None to wait

    >>> Timing("paper").server_speedup
    100.0
    """

    clock: str = "none"
    devices: str | Sequence[Device] = "phones"
    availability: str = "always"
    server_speedup: float = 100.0
    server_parallel: int | None = None
    step_deadline: float | None = None

    def __post_init__(self) -> None:
        check_choice("clock", self.clock, CLOCKS)
        check_number("server_speedup", self.server_speedup, above=0)
        if self.server_parallel is not None:
            check_count("server_parallel", self.server_parallel)
        if self.step_deadline is not None:
            check_number("step_deadline", self.step_deadline, above=0)
        if self.clock == "none":
            for one in fields(self)[1:]:
                if (value := getattr(self, one.name)) != one.default:
                    refuse(one.name, value, "a clock along with it: paper or full")


def start_clock(
    timing: Timing,
    counted: Costs,
    layout: Layout,
    clients: int,
    seed: int,
    method: Method,
    optimizer: Optimizer,
    number_bytes: int,
    overhead: int = 0,
) -> Clock | None:
    """The clock of a run, None if there is to be none. `counted` are the costs of its model."""
    if timing.clock == "none":
        return None
    # where nobody waits for a step, or the server model is one for all, a deadline changes nothing
    deadline = timing.step_deadline if method.waits == "step" and not method.where.one_server else None
    if not counted.macs:
        refuse("clock", timing.clock, '"none" for this model: it has no multiply-accumulates to share out')
    devices = devices_for(
        timing.devices, timing.availability, clients, seed=seed, macs=counted.macs, symmetric=timing.clock == "paper"
    )
    return Clock(
        mode=timing.clock,
        devices=devices,
        costs=counted,
        layout=layout,
        method=method,
        carried=optimizer.moments if method.carry else 0,
        speedup=timing.server_speedup,
        parallel=timing.server_parallel or math.inf,
        deadline=math.inf if deadline is None else deadline,
        asked_deadline=timing.step_deadline is not None,
        number_bytes=number_bytes,
        overhead=overhead,
    )
