"""What a step and a round cost a client: its share of the work and the bytes that cross the cut, from the real model.

    two parts   client forward | up S | server forward and backward | down S | client backward
    U shape     client forward | up S | server forward | down S' | client's end, forward and backward | up S' |
                server backward | down S | client backward

A backward pass takes twice as long as a forward pass, so that the paper's step comes out:

    t_j = 3 B p_j O(L) + 3 B p_s (1 - O(L)) + 2 B S(L) / b_j

A message takes half a round trip r_j longer than its bytes, so that r_j is added to a step, in the U shape 2 r_j, and
r_j to a round for the weights that a client fetches and gives back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from smofi.clock.devices import Device
from smofi.clock.replay import LATENCY, SERVER, Leg
from smofi.cut import Cut
from smofi.flat import Layout, columns_in
from smofi.models.costs import Costs


class SentBytes(NamedTuple):
    """The bytes of what crosses the cut: of a number, 0 for as many as the model's own have, and those added to every
    sample."""

    per_number: int = 0
    per_sample: int = 0


AS_COMPUTED = SentBytes()
"""Numbers are sent as the model computes them."""


@dataclass(frozen=True)
class StepCosts:
    """A cut's costs. Shares are of the model's multiply-accumulates: `front` before the server's, `back` after it (U
    shape). `activation` and `output` are the bytes per sample of what enters and, in the U shape, leaves the server."""

    front: float
    server: float
    back: float
    activation: int
    output: int

    @classmethod
    def of(cls, costs: Costs, cut: Cut, sent: SentBytes = AS_COMPUTED) -> StepCosts:
        """Return the costs of a model at a cut."""
        macs = [block.macs for block in costs.blocks]
        sides = macs[: cut.first], macs[cut.first : cut.last], macs[cut.last :]
        front, server, back = (sum(side) / max(1, sum(macs)) for side in sides)
        activation, output = (
            costs.blocks[edge - 1].numbers * (sent.per_number or costs.blocks[edge - 1].width) + sent.per_sample
            for edge in (cut.first, cut.last)
        )
        return cls(front, server, back, activation, output if cut.u_shaped else 0)

    @property
    def up(self) -> int:
        """Bytes per sample that the client sends in a step."""
        return self.activation + self.output

    @property
    def down(self) -> int:
        """Bytes per sample that it receives."""
        return self.activation + self.output

    def step(self, batch: int, device: Device, server: float) -> tuple[Leg, ...]:
        """Return a step of `batch` samples; `server` is what the server takes for one, through the whole model."""
        forward, serving = batch * device.seconds * self.front, batch * server * self.server
        activation, output = batch * self.activation, batch * self.output
        begin = Leg("compute", forward), *sent(activation, device)
        end = *received(activation, device), Leg("compute", 2 * forward)
        if not self.output:
            return *begin, Leg(SERVER, 3 * serving), *end
        ending = Leg("compute", 3 * batch * device.seconds * self.back)
        middle = *received(output, device), ending, *sent(output, device)
        return *begin, Leg(SERVER, serving), *middle, Leg(SERVER, 2 * serving), *end


def sent(count: int, device: Device) -> tuple[Leg, ...]:
    """Return the legs of a message to the server."""
    return Leg("up", count / device.up), *_under_way(device)


def received(count: int, device: Device) -> tuple[Leg, ...]:
    """Return the legs of a message from the server."""
    return *_under_way(device), Leg("down", count / device.down)


def _under_way(device: Device) -> tuple[Leg, ...]:
    # r_j / 2
    return (Leg(LATENCY, device.rtt / 2),) if device.rtt else ()


def client_bytes(layout: Layout, cut: Cut, moments: int = 0) -> int:
    """Return the bytes that a client fetches at the beginning of a round and gives back at its end: the parameters and
    statistics of its part, and the momenta of its parameters where they are carried on."""
    edges = [(blocks.start, blocks.stop) for blocks in cut.client_blocks]
    columns = sum(columns_in(layout.columns(*edge)) for edge in edges)
    statistics = sum(columns_in(layout.statistic_columns(*edge)) for edge in edges)
    return ((1 + moments) * columns + statistics) * layout.dtype.itemsize
