"""What a step and a round cost a client: its share of the work and the bytes that cross the cut, from the real model.

    two parts   client forward | up S | server forward and backward | down S | client backward
    U shape     client forward | up S | server forward | down S' | client's end, forward and backward | up S' |
                server backward | down S | client backward

A backward pass takes twice as long as a forward pass, so that the paper's step comes out:

    t_j = 3 B p_j O(L) + 3 B p_s (1 - O(L)) + 2 B S(L) / b_j
"""

from __future__ import annotations

from dataclasses import dataclass

from smofi.clock.devices import Device
from smofi.clock.replay import SERVER, Job, Leg
from smofi.cut import Cut
from smofi.engine.memory.needs import columns_in
from smofi.flat import Layout
from smofi.models.costs import Costs


@dataclass(frozen=True)
class StepCosts:
    """A cut's costs. Shares are of the model's multiply-accumulates: `front` before the server's, `back` after it (U
    shape). `there` and `back_again` are the bytes per sample of what enters and, in the U shape, leaves the server."""

    front: float
    server: float
    back: float
    there: int
    back_again: int

    @classmethod
    def of(cls, costs: Costs, cut: Cut, number_bytes: int = 0, overhead: int = 0) -> StepCosts:
        """At this cut, with so many bytes for every number that crosses it, 0 for the model's own, and so many more for
        every sample."""
        macs = [block.macs for block in costs.blocks]
        front, server, back = (sum(part) / max(1, sum(macs)) for part in _parted(macs, cut))
        there, again = (
            costs.blocks[edge - 1].numbers * (number_bytes or costs.blocks[edge - 1].width) + overhead
            for edge in (cut.first, cut.last)
        )
        return cls(front, server, back, there, again if cut.u_shaped else 0)

    @property
    def up(self) -> int:
        """Bytes per sample that the client sends in a step."""
        return self.there + self.back_again

    @property
    def down(self) -> int:
        """Bytes per sample that it receives."""
        return self.there + self.back_again

    def step(self, batch: int, device: Device, server: float) -> tuple[Leg, ...]:
        """A step of `batch` samples; `server` is what the server takes for one, through the whole model."""
        forward, serving = batch * device.seconds * self.front, batch * server * self.server
        there, again = batch * self.there, batch * self.back_again
        sent = Leg("compute", forward), Leg("up", there / device.up)
        received = Leg("down", there / device.down), Leg("compute", 2 * forward)
        if not self.back_again:
            return *sent, Leg(SERVER, 3 * serving), *received
        ending = Leg("compute", 3 * batch * device.seconds * self.back)
        middle = Leg("down", again / device.down), ending, Leg("up", again / device.up)
        return *sent, Leg(SERVER, serving), *middle, Leg(SERVER, 2 * serving), *received


def client_bytes(layout: Layout, cut: Cut, moments: int = 0) -> int:
    """What a client fetches at the beginning of a round and gives back at its end: the parameters and statistics of its
    part, and the momenta of its parameters where they are carried on."""
    edges = [(blocks.start, blocks.stop) for blocks in cut.client_blocks]
    columns = sum(columns_in(layout.columns(*edge)) for edge in edges)
    statistics = sum(columns_in(layout.statistic_columns(*edge)) for edge in edges)
    return ((1 + moments) * columns + statistics) * layout.dtype.itemsize


def _parted(values: list[int], cut: Cut) -> tuple[list[int], list[int], list[int]]:
    return values[: cut.first], values[cut.first : cut.last], values[cut.last :]


def job(
    step_costs: StepCosts, device: Device, batch: int, steps: int, epoch_steps: int, *, server: float, weights: int,
    leaves: float,
) -> Job:  # fmt: skip
    """A client's round; `weights` are the bytes of its part of the model, 0 to leave them out."""
    fetch = (Leg("down", weights / device.down),) if weights else ()
    give = (Leg("up", weights / device.up),) if weights else ()
    return Job(step_costs.step(batch, device, server), steps, epoch_steps, fetch, give, leaves)
