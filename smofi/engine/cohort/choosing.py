"""Client by client, or many at once: the same numbers, and which is faster depends on the model and the machine."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace

import torch

from smofi.engine.at_once.independence import DEPENDENT, padding_of
from smofi.engine.at_once.padding import Padding
from smofi.engine.at_once.private import why_missing
from smofi.engine.at_once.trial import why_not
from smofi.engine.cohort.execution import MOST_AT_ONCE, Execution, Executor, parse_executor
from smofi.engine.cohort.measurements import StepTimes, measured_before
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.noise import own_random_state
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import OneWorker
from smofi.seeds import untouched_streams

WORTHWHILE = 1.1
"""How many times as fast it has to look for `auto` to compute clients at once."""

LONG_STEP = 0.03
"""Seconds; where a client's step takes longer on a CPU, the time goes into arithmetic, and there is nothing to gain."""

TICKS, TURNS = 3, 3
"""How often each way is timed in a row, and how often the two take turns."""


def choose(executor: str, simulation: Simulation, plan: RoundPlan, room_for: int = MOST_AT_ONCE) -> Execution:
    """What a setting means in this simulation, given a typical plan and memory for `room_for` clients at once."""
    asked = parse_executor(executor)
    if asked.name == "loop":
        return Execution()
    if reason := _obstacle(simulation):
        return Execution(why=reason)
    with untouched_streams(), own_random_state(simulation.state.weights.device):
        return replace(_chosen(asked, simulation, plan, room_for), room_for=room_for)


def _chosen(asked: Executor, simulation: Simulation, plan: RoundPlan, room_for: int) -> Execution:
    clients = min(room_for, len(_own_rows(simulation, plan)))
    if asked.name == "vmap":
        if reason := _try(simulation, plan):
            return Execution(why=reason)
        return Execution(max(1, clients), asked.at_least, padding=_padding(simulation, plan, room_for))
    if clients < 2:
        return Execution(why="memory has room for one at a time" if room_for < 2 else "a worker has a single client")
    execution = _faster(simulation, plan, clients)
    if not execution.at_once:
        return execution
    padding = _padding(simulation, plan, room_for)
    return replace(execution, padding=padding) if padding else Execution(why=DEPENDENT)


def _obstacle(simulation: Simulation) -> str | None:
    setup = simulation.setup
    if setup.method.where.one_server:
        return f"{setup.method} has a single server model"
    if setup.wire:
        return "a wire needs the split of each client to be executed"
    if simulation.diagnose:
        return "diagnose looks at each client on its own"
    return "the passes are compiled" if setup.compiled else why_missing()


def _try(simulation: Simulation, plan: RoundPlan) -> str | None:
    samples, device = simulation.clients[plan.clients[0]], simulation.state.weights.device
    batch = samples.batch(torch.arange(min(len(samples), plan.batch_sizes[0]), device=device))
    return why_not(simulation.setup.template, simulation.setup.loss, batch)


def _padding(simulation: Simulation, plan: RoundPlan, room_for: int) -> Padding | None:
    setup, samples = simulation.setup, simulation.clients[plan.clients[0]]
    size, device = plan.batch_sizes[0], simulation.state.weights.device
    batch = samples.batch(torch.arange(size, device=device) % len(samples))
    return padding_of(setup.template, setup.loss, batch, min(room_for, len(plan.clients)), setup.cast)


def _faster(simulation: Simulation, plan: RoundPlan, clients: int) -> Execution:
    times = measured_before(_circumstances(simulation, plan, clients), lambda: _measure(simulation, plan, clients))
    loop, two, every = times.loop, times.two, times.every
    if times.obstacle:
        return Execution(why=times.obstacle)
    if loop > LONG_STEP and simulation.state.weights.device.type == "cpu":
        return Execution(why=f"a step takes {1000 * loop:.0f} ms, nearly all of it arithmetic", measured=True)
    # c clients at once take a + b c seconds: from how many on is that less than c times one?
    b = (every - two) / (clients - 2) if clients > 2 else 0.0
    a = two - 2 * b
    enough = max(1, math.ceil(a / (loop - b))) if loop > b else clients + 1
    counts = list(_active_counts(simulation, plan, clients))
    gain = loop * sum(counts) / sum(a + b * count if count >= enough else loop * count for count in counts)
    if gain < WORTHWHILE:
        return Execution(why="many at once would hardly be faster", measured=True)
    at_least = enough * simulation.workers.size  # of the round's clients, which the workers share evenly
    return Execution(clients, at_least, f"about {gain:.1f} times as fast as client by client", measured=True)


def _measure(simulation: Simulation, plan: RoundPlan, clients: int) -> StepTimes:
    """Several at once are timed only where a single client's step is short."""
    # as in the round, but every client is active for as long as it takes
    long = [TICKS + 1] * len(plan.steps)
    short = replace(plan, steps=long, epoch_steps=long, planned_steps=long, landed=None)
    loop, two, every = _step_seconds(simulation, short, 0, 1), math.inf, math.inf
    if loop > LONG_STEP and simulation.state.weights.device.type == "cpu":
        return StepTimes(loop)
    if obstacle := _try(simulation, plan):
        return StepTimes(obstacle=obstacle)
    for _ in range(TURNS):
        loop = min(loop, _step_seconds(simulation, short, 0, 1))
        two = min(two, _step_seconds(simulation, short, 2, 2))
        every = min(every, _step_seconds(simulation, short, clients, clients))
    return StepTimes(loop, two, every)


def _circumstances(simulation: Simulation, plan: RoundPlan, clients: int) -> str:
    """What the times depend on, and nothing that changes from run to run."""
    setup, samples = simulation.setup, simulation.clients[plan.clients[0]]
    device = simulation.state.weights.device
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    where = torch.__version__, str(device.type), machine, platform.node(), torch.get_num_threads()
    inputs, _ = samples.batch(torch.zeros(1, dtype=torch.int64, device=device))
    what = str(setup.template), str(setup.layout.dtype), tuple(inputs.shape[1:]), max(plan.batch_sizes), clients
    how = setup.optimizer, str(setup.method), str(plan.cuts[0]), simulation.augment, setup.cast is nullcontext
    return repr((where, what, how, simulation.workers.size, type(simulation.clients[0]).__name__))


def _step_seconds(simulation: Simulation, plan: RoundPlan, at_once: int, clients: int) -> float:
    """The time of a step of this many clients: the shortest of a few, in a trial that is thrown away."""
    now = stopwatch(simulation.state.weights.device)
    trial = replace(simulation, workers=OneWorker(), execution=Execution(at_once))
    cohort = SimulatedCohort(trial, plan.only(_own_rows(simulation, plan)[:clients]))
    taken = []
    with closing(cohort.ticks()) as ticks:
        for tick in ticks:
            started = now()
            cohort.step(tick.groups)
            taken.append(now() - started)
            if len(taken) > TICKS:
                break
    return min(taken[1:])


def _active_counts(simulation: Simulation, plan: RoundPlan, at_once: int) -> Iterator[int]:
    """How many clients this process computes at once, for each of its steps."""
    steps = sorted((plan.steps[row] for row in _own_rows(simulation, plan)), reverse=True)
    for low in range(0, len(steps), at_once):
        for step in range(steps[low]):
            yield sum(step < count for count in steps[low : low + at_once])


def _own_rows(simulation: Simulation, plan: RoundPlan) -> list[int]:
    return deal(plan.steps, simulation.workers.size)[simulation.workers.rank]


def stopwatch(device: torch.device) -> Callable[[], float]:
    """The time in seconds, once the device has finished its work."""

    def after_device() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return after_device if device.type == "cuda" else time.perf_counter
