"""Virtual time, as a user configures it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from smofi.errors import check_choice, check_count, check_number, refuse_unwanted

if TYPE_CHECKING:
    from smofi.clock.devices import Device

CLOCKS = ("none", "paper", "full")


@dataclass(frozen=True)
class Timing:
    """How long rounds take on the clients' devices.

    clock             "none"; "paper" charges computation and what crosses the cut; "full" also the clients' weights and
                      round trips
    devices           "phones", drawn from public measurements, or "phones(rtt_ms=80)"; a CSV file; or a list of
                      `smofi.Device`, one per client
    availability      "always"; "phones", drawn from public measurements; or a CSV file of traces
    server_speedup    how many times faster the server computes than the average device
    server_parallel   how many clients the server computes for at the same time; None: all
    step_deadline     seconds after which a step no longer waits for late clients; for smofi and sflv1, which have a
                      server model per client and wait at every step; None: it waits for all

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
            for field in fields(self)[1:]:
                if (value := getattr(self, field.name)) != field.default:
                    refuse_unwanted(field.name, value, "it needs a clock, paper or full")
