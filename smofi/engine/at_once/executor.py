"""Client by client, or many at once: the same numbers, and which is faster depends on the model and the machine."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace

import torch

from smofi.engine.at_once.choice import MOST_AT_ONCE, Choice
from smofi.engine.at_once.measurements import Measured, remembered
from smofi.engine.at_once.trial import why_not
from smofi.engine.cohort.noise import own_random_state
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.crew import deal
from smofi.seeds import untouched_streams

EXECUTORS = ("auto", "loop", "vmap")
WORTH = 1.1
"""How many times as fast it has to be, in prospect, for `auto` to compute clients at once."""

LONG_STEP = 0.03
"""Seconds; where a client's step takes longer on a CPU, the time goes into arithmetic, and nothing is to be gained."""

TICKS, TURNS = 3, 3
"""How often each way is timed in a row, and how often the two take turns."""


def choose(executor: str, cohort: SimulatedCohort, plan: RoundPlan, most: int = MOST_AT_ONCE) -> Choice:
    """What a setting stands for with this cohort, a typical plan, and no more than `most` clients at once."""
    if executor == "loop":
        return Choice()
    if reason := _obstacle(cohort):
        return Choice(why=reason)
    before = cohort.choice
    try:
        with untouched_streams(), own_random_state(cohort.state.weights.device):
            return replace(_choice(executor, cohort, plan, most), most=most)
    finally:
        cohort.choice = before
        cohort.release()


def _choice(executor: str, cohort: SimulatedCohort, plan: RoundPlan, most: int) -> Choice:
    clients = min(most, len(deal(plan.steps, cohort.crew.size)[cohort.crew.rank]))
    if executor == "vmap":
        reason = _try(cohort, plan)
        return Choice(why=reason) if reason else Choice(max(1, clients))
    if clients < 2:
        return Choice(why="there is nobody to compute at once with another")
    return _measured(cohort, plan, clients)


def _obstacle(cohort: SimulatedCohort) -> str | None:
    if cohort.method.where.one_server:
        return f"{cohort.method} has a single server model"
    if cohort.wire:
        return "a wire wants every client's own split"
    if cohort.diagnostics:
        return "diagnose looks at every client by itself"
    return "compiled" if cohort.compiled else None


def _try(cohort: SimulatedCohort, plan: RoundPlan) -> str | None:
    samples, device = cohort.clients[plan.clients[0]], cohort.state.weights.device
    batch = samples.batch(torch.arange(min(len(samples), plan.batch_sizes[0]), device=device))
    return why_not(cohort.template, cohort.loss, batch)


def _measured(cohort: SimulatedCohort, plan: RoundPlan, clients: int) -> Choice:
    found = remembered(_circumstances(cohort, plan, clients), lambda: _measure(cohort, plan, clients))
    loop, two, every = found.loop, found.two, found.every
    if found.obstacle:
        return Choice(why=found.obstacle)
    if loop > LONG_STEP and cohort.state.weights.device.type == "cpu":
        return Choice(why=f"a step takes {1000 * loop:.0f} ms, nearly all of it arithmetic", measured=True)
    # c clients at once take a + b c seconds: from how many on is that less than c times one?
    b = (every - two) / (clients - 2) if clients > 2 else 0.0
    a = two - 2 * b
    few = max(1, math.ceil(a / (loop - b))) if loop > b else clients + 1
    counts = list(_active_counts(cohort, plan, clients))
    gain = loop * sum(counts) / sum(a + b * count if count >= few else loop * count for count in counts)
    if gain < WORTH:
        return Choice(why=f"at once would be about {gain:.1f} times as fast", measured=True)
    return Choice(clients, few, f"about {gain:.1f} times as fast as client by client", measured=True)


def _measure(cohort: SimulatedCohort, plan: RoundPlan, clients: int) -> Measured:
    """Several at once are tried only where a step of one is short."""
    # as in the round, but everyone is active for as long as it takes
    long = [TICKS + 1] * len(plan.steps)
    short = replace(plan, steps=long, epoch_steps=long, planned_steps=long, landed=None)
    loop, two, every = _step_seconds(cohort, short, 0, 1), math.inf, math.inf
    if loop > LONG_STEP and cohort.state.weights.device.type == "cpu":
        return Measured(loop)
    if obstacle := _try(cohort, plan):
        return Measured(obstacle=obstacle)
    for _ in range(TURNS):
        loop = min(loop, _step_seconds(cohort, short, 0, 1))
        two = min(two, _step_seconds(cohort, short, 2, 2))
        every = min(every, _step_seconds(cohort, short, clients, clients))
    return Measured(loop, two, every)


def _circumstances(cohort: SimulatedCohort, plan: RoundPlan, clients: int) -> str:
    """What the times depend on, and nothing that changes from run to run."""
    device = cohort.state.weights.device
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    where = torch.__version__, str(device.type), machine, platform.node(), torch.get_num_threads()
    inputs, _ = cohort.clients[plan.clients[0]].batch(torch.zeros(1, dtype=torch.int64, device=device))
    what = str(cohort.template), str(cohort.layout.dtype), tuple(inputs.shape[1:]), max(plan.batch_sizes), clients
    how = cohort.optimizer, str(cohort.method), str(plan.cuts[0]), cohort.augment, cohort.cast is nullcontext
    return repr((where, what, how, cohort.crew.size, type(cohort.clients[0]).__name__))


def _step_seconds(cohort: SimulatedCohort, plan: RoundPlan, at_once: int, clients: int) -> float:
    """The time of a step of so many clients: the shortest of a few, on rows that are thrown away."""
    now = clock(cohort.state.weights.device)
    cohort.choice = Choice(at_once)
    cohort.begin(plan)
    taken = []
    with closing(cohort.ticks()) as ticks:
        for tick in ticks:
            own = [group for group in tick.groups if group[0] in cohort.members][:clients]
            started = now()
            cohort.step(own)
            taken.append(now() - started)
            if len(taken) > TICKS:
                break
    return min(taken[1:])


def _active_counts(cohort: SimulatedCohort, plan: RoundPlan, at_once: int) -> Iterator[int]:
    """How many clients this process computes at once, for each of its steps."""
    rows = deal(plan.steps, cohort.crew.size)[cohort.crew.rank]
    steps = sorted((plan.steps[row] for row in rows), reverse=True)
    for low in range(0, len(steps), at_once):
        for step in range(steps[low]):
            yield sum(step < count for count in steps[low : low + at_once])


def clock(device: torch.device) -> Callable[[], float]:
    """A clock that waits for the device to be done."""

    def after_device() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return after_device if device.type == "cuda" else time.perf_counter
