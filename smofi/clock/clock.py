"""Virtual time: what each round takes on the clients' devices, and what becomes of it if some are late or leave.

A step costs a client its share of the work, and the bytes that cross the cut, from the real model:

    two parts   client forward | up S | server forward and backward | down S | client backward
    U shape     client forward | up S | server forward | down S' | client's end, forward and backward | up S' |
                server backward | down S | client backward

A backward pass takes twice as long as a forward pass, so that the paper's step comes out:

    t_j = 3 B p_j O(L) + 3 B p_s (1 - O(L)) + 2 B S(L) / b_j

A message takes half a round trip r_j longer than its bytes, so that r_j is added to a step, in the U shape 2 r_j, and
r_j to a round for the weights that a client fetches and gives back.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from smofi.clock.devices import ALWAYS, Device, Timing, devices_for
from smofi.clock.replay import LATENCY, SERVER, Job, Leg, Replayed, Rules, replay
from smofi.cut import Cut
from smofi.engine.plan import RoundPlan, RoundTime
from smofi.errors import InputError, refuse
from smofi.flat import Layout, columns_in
from smofi.method import Method
from smofi.models.costing import Costs
from smofi.optim import Optimizer

# --------------------------------------------------------------------------------------------------------------------
# What a step costs at a cut.


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
        macs = [block.macs for block in costs.blocks]
        sides = macs[: cut.first], macs[cut.first : cut.last], macs[cut.last :]
        front, server, back = (sum(side) / max(1, sum(macs)) for side in sides)
        activation, output = (
            costs.blocks[edge - 1].numbers * (sent.per_number or costs.blocks[edge - 1].width) + sent.per_sample
            for edge in (cut.first, cut.last)
        )
        return cls(front, server, back, activation, output if cut.u_shaped else 0)

    @property
    def crossing(self) -> int:
        """Return the bytes per sample that the client sends in a step, and as many that it receives."""
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


# --------------------------------------------------------------------------------------------------------------------
# The clock of a run.


@dataclass(frozen=True)
class Clock:
    """Times rounds of a model on these devices, one for each client.

    Where the timing is "full", a client is also charged for round trips, and for what it fetches at the beginning of a
    round and gives back at its end, with the `carried` momenta.
    """

    timing: Timing
    devices: Sequence[Device]
    costs: Costs
    layout: Layout
    method: Method
    carried: int = 0
    sent: SentBytes = AS_COMPUTED

    @cached_property
    def server(self) -> float:
        """Return the server's seconds for one sample through the whole model."""
        # p_s = mean(p_j) / kappa
        return fmean(device.seconds for device in self.devices) / self.timing.server_speedup

    @property
    def deadline(self) -> float:
        """Return the deadline of a step, none where clients do not wait at every step, or share a server model."""
        deadline = self.timing.step_deadline
        applies = self.method.waits == "step" and not self.method.where.one_server
        return deadline if applies and deadline is not None else math.inf

    def step_costs(self, cut: Cut) -> StepCosts:
        return self._at(cut)[0]

    def speeds(self, clients: Sequence[int], cuts: Sequence[Cut]) -> list[float]:
        """Return each client's samples per second, without round trips, which take as long for a whole batch."""
        # s_j = 1 / (a sample's time on the device and to be sent)
        steps = [
            self.step_costs(cut).step(1, self.devices[client], self.server)
            for client, cut in zip(clients, cuts, strict=True)
        ]
        return [1 / sum(leg.seconds for leg in legs if leg.kind not in (SERVER, LATENCY)) for legs in steps]

    def present(self, clients: Sequence[int], now: float) -> tuple[float, list[int]]:
        """Return the time, later if no client is available now, and the clients that are available then."""
        if all(device.presence is ALWAYS for device in self.devices):
            return now, list(clients)
        then = min(self.devices[client].presence.comes(now) for client in clients)
        if then == math.inf:
            raise InputError(
                "availability leaves no client to train with: none of those with a full batch is ever available"
            )
        return then, [client for client in clients if self.devices[client].presence.leaves(then) > then]

    def settle(self, plan: RoundPlan, now: float) -> tuple[RoundPlan, float]:
        """Return the plan with the steps that get done and the shares of those that are averaged; and the time."""
        replayed = self.replayed(plan, now)
        enough = [
            2 * done >= planned and not gone
            for done, planned, gone in zip(replayed.steps, plan.steps, replayed.gone, strict=True)
        ]
        # p_j, renormalised over those that are aggregated
        shares = [share if taken else 0.0 for share, taken in zip(plan.shares, enough, strict=True)]
        total = sum(shares)
        settled = replace(
            plan,
            steps=replayed.steps,
            shares=shares if all(enough) or not total else [share / total for share in shares],
            landed=tuple(map(tuple, replayed.landed)) if self.deadline < math.inf else None,
            time=self._time(plan, replayed, enough, now),
        )
        return settled, replayed.end

    def replayed(self, plan: RoundPlan, now: float, *, watch: bool = False) -> Replayed:
        """Replay the planned round; `watch` also records what each client does when."""
        where, visits = self.method.where, None
        if where.one_server and not where.merges:
            visits = [[row for group in tick.groups for row in group] for tick in plan.ticks(self.method)]
            if self.method.waits == "client":
                visits = [list(dict.fromkeys(row for rows in visits for row in rows))]
        # the paper charges each client for its own samples; in truth the merged batch waits for the last of them
        merges = where.merges and self.timing.clock == "full"
        rules = Rules(self.method.waits, self.timing.server_parallel or math.inf, visits, merges, self.deadline)
        return replay(self.jobs(plan, now), rules, now, watch=watch)

    def jobs(self, plan: RoundPlan, now: float) -> list[Job]:
        """Return what each of the round's clients has to do."""
        jobs = []
        for client, cut, batch, steps, epoch in zip(
            plan.clients, plan.cuts, plan.batch_sizes, plan.steps, plan.epoch_steps, strict=True
        ):
            device, (costs, weights) = self.devices[client], self._at(cut)
            step = costs.step(batch, device, self.server)
            fetch, give = (received(weights, device), sent(weights, device)) if weights else ((), ())
            jobs.append(Job(step, steps, epoch, fetch, give, device.presence.leaves(now)))
        return jobs

    @property
    def remarks(self) -> list[str]:
        """Return what a user should know before the run."""
        if self.timing.step_deadline is None or self.deadline < math.inf:
            return []
        reason = "has one server model for all" if self.method.where.one_server else "does not wait at every step"
        return [f"step_deadline changes nothing for {self.method}, which {reason}"]

    @property
    def waits_for_all(self) -> bool:
        """Tell whether there is no deadline that a client could miss."""
        return self.deadline == math.inf

    @property
    def fingerprint(self) -> str:
        """Return a hash of the devices."""
        numbers = [
            (one.seconds, one.up, one.down, one.presence.period, one.presence.intervals)
            + ((one.rtt,) if one.rtt else ())
            for one in self.devices
        ]
        return hashlib.sha256(repr(numbers).encode()).hexdigest()

    @cached_property
    def _costs_by_cut(self) -> dict[Cut, tuple[StepCosts, int]]:
        return {}

    def _at(self, cut: Cut) -> tuple[StepCosts, int]:
        """Return what a step costs, and the bytes of a client's part that are charged for."""
        if cut not in self._costs_by_cut:
            weights = client_bytes(self.layout, cut, self.carried) if self.timing.clock == "full" else 0
            self._costs_by_cut[cut] = StepCosts.of(self.costs, cut, self.sent), weights
        return self._costs_by_cut[cut]

    def _time(self, plan: RoundPlan, replayed: Replayed, enough: Sequence[bool], now: float) -> RoundTime:
        step_costs, weights = zip(*map(self._at, plan.cuts), strict=True) if plan.cuts else ((), ())
        samples = [batch * done for batch, done in zip(plan.batch_sizes, replayed.steps, strict=True)]
        leaves = [self.devices[client].presence.leaves(now) for client in plan.clients]
        present = [min(replayed.end, left) - now for left in leaves]
        crossed = [n * one.crossing for n, one in zip(samples, step_costs, strict=True)]
        up = [n + own * taken for n, own, taken in zip(crossed, weights, enough, strict=True)]
        down = [n + own * (busy > 0) for n, own, busy in zip(crossed, weights, replayed.busy, strict=True)]
        idle = [max(0.0, 1 - busy / time) if time else 0.0 for busy, time in zip(replayed.busy, present, strict=True)]
        left_out = [client for client, taken in zip(plan.clients, enough, strict=True) if not taken]
        return RoundTime(now, replayed.end, up, down, idle, left_out)


def start_clock(
    timing: Timing,
    counted: Costs,
    layout: Layout,
    clients: int,
    seed: int,
    method: Method,
    optimizer: Optimizer,
    sent: SentBytes,
) -> Clock | None:
    """Return the clock of a run, None if it has none. `counted` are the costs of its model."""
    if timing.clock == "none":
        return None
    if not counted.macs:
        refuse(
            "clock",
            timing.clock,
            '"none" for this model: it has no multiply-accumulates to divide between client and server',
        )
    devices = devices_for(
        timing.devices, timing.availability, clients, seed=seed, macs=counted.macs, symmetric=timing.clock == "paper"
    )
    if timing.clock == "paper":  # whose equations have no latency
        devices = [replace(device, rtt=0.0) for device in devices]
    carried = optimizer.moments if method.carry else 0
    return Clock(timing, devices, counted, layout, method, carried, sent)
