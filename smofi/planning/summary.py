"""A dry run: what a configuration will do and take, found by planning its rounds and timing some of its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from statistics import fmean, median
from typing import Any

from torch import Tensor

from smofi.config import Config
from smofi.config.federation import Federation
from smofi.data.samples import Samples
from smofi.engine.cohort.choosing import stopwatch
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.evaluate import Evaluator
from smofi.engine.memory.needs import Memory, activation_memory, lasting_memory, round_memory
from smofi.engine.noise import own_random_state
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import OneWorker
from smofi.flat import columns_in
from smofi.method import Method
from smofi.methods import parse_method
from smofi.training import Session, prepare

# --------------------------------------------------------------------------------------------------------------------
# How long a round takes, from a few real steps: nothing that a run keeps is changed.


EVALUATED_BATCHES = 2


@dataclass(frozen=True)
class Seconds:
    """What was measured: a round's beginning, one client's step, the end of a tick, of a round, and an evaluation."""

    begin: float
    step: float
    tick: float
    end: float
    evaluation: float

    def per_round(self, steps: float, ticks: float) -> float:
        """A round with this number of steps, those of all clients together, and this number of ticks.

        >>> Seconds(begin=1, step=2, tick=3, end=4, evaluation=5).per_round(steps=10, ticks=2)
        36
        """
        return self.begin + steps * self.step + ticks * self.tick + self.end + self.evaluation


def time_rounds(simulation: Simulation, evaluator: Evaluator, plans: Sequence[RoundPlan], deadline: float) -> Seconds:
    """Rounds as planned, group by group, until `deadline` seconds are over; then one evaluation."""
    now = stopwatch(simulation.state.weights.device)
    begin: list[float] = []
    step: list[float] = []
    tick: list[float] = []
    end: list[float] = []
    until = now() + deadline
    for plan in plans:
        started = now()
        cohort = SimulatedCohort(simulation, plan)
        begin.append(now() - started)
        for planned in cohort.ticks():
            size = max(1, simulation.execution.at_once)
            neighbours = sorted(planned.groups, key=lambda group: cohort.place(group[0]))
            for low in range(0, len(neighbours), size):
                groups = neighbours[low : low + size]
                step.append(_timed(now, cohort.step, groups) / sum(map(len, groups)))
                if now() > until:
                    break
            tick.append(_timed(now, cohort.fuse))
            if planned.average:
                tick[-1] += _timed(now, cohort.average_servers, planned.average)
            if now() > until:
                end.append(_timed(now, cohort.close_rows))
                break
        else:
            end.append(0.0)
        end[-1] += _timed(now, cohort.mean)  # the state itself is left alone
        if now() > until:
            break
    evaluation = sum(_evaluation(now, evaluator, samples) for samples in evaluator.held_out)
    # medians, so that a moment in which the machine did something else does not count a thousandfold
    return Seconds(median(begin), median(step), median(tick), median(end), evaluation)


def _evaluation(now: Callable[[], float], evaluator: Evaluator, samples: Samples) -> float:
    """The time for all these samples, from that for the first batches."""
    evaluated = min(len(samples), EVALUATED_BATCHES * evaluator.batch_size)
    return _timed(now, evaluator.predict, samples, evaluated) * len(samples) / evaluated


def _timed(now: Callable[[], float], function: Callable[..., Any], *arguments: Any) -> float:
    started = now()
    function(*arguments)
    return now() - started


# --------------------------------------------------------------------------------------------------------------------
# A dry run: what a configuration will do and take, found by planning its rounds and timing some of its steps.

IN_COMMON = ("initial model", "data")
"""What forked workers share."""

MOST_ROUNDS = 1000  # planned one by one; the rest are like these
MOST_SCHEDULES, MOST_TICKS = 20, 10_000  # whose ticks are counted one by one; how many of each of them


@dataclass(frozen=True)
class CutParameters:
    """How many parameters the client and the server have at one cut."""

    cut: str
    client: int
    server: int


@dataclass(frozen=True)
class PlanSummary:
    """What a run will do and what it will take.

    `samples` are those of the smallest, the median and the largest client; steps are all clients' together; memory is
    that of one worker in the fullest round.
    """

    method: str
    rounds: int
    clients: int
    eligible: int
    per_round: int
    samples: tuple[int, float, int]
    validation: int
    test: int
    steps_per_round: float
    parameters: int
    sides: tuple[CutParameters, ...]
    memory: tuple[Memory, ...]
    measured: Seconds
    seconds_per_round: float
    workers: int = 1
    seeds: int = 1

    @property
    def steps(self) -> int:
        """Of the whole run, or of all runs of several seeds; exact up to a thousand rounds."""
        return round(self.seeds * self.rounds * self.steps_per_round)

    @property
    def bytes(self) -> int:
        """All memory that is accounted for, of all workers; Python and torch themselves take some hundred megabytes
        more."""
        own = sum(item.bytes for item in self.memory if item.what not in IN_COMMON)
        return self.workers * own + sum(item.bytes for item in self.memory if item.what in IN_COMMON)

    @property
    def seconds(self) -> float:
        """Of the whole run, or of all runs of several seeds, unless one stops early."""
        return self.seeds * self.rounds * self.seconds_per_round


def over_seeds(plans: Sequence[PlanSummary]) -> PlanSummary:
    """The runs of a method with several seeds, one after the other: the memory of the largest, and means over all."""
    largest = max(plans, key=lambda plan: plan.bytes)
    low, middle, high = zip(*(plan.samples for plan in plans), strict=True)
    return replace(
        largest,
        eligible=min(plan.eligible for plan in plans),
        samples=(min(low), median(middle), max(high)),
        steps_per_round=fmean(plan.steps_per_round for plan in plans),
        seconds_per_round=fmean(plan.seconds_per_round for plan in plans),
        seeds=len(plans),
    )


class FirstWorker(ForkedWorkers):
    """The first of several workers, as it plans: the others are not there, and nothing is exchanged."""

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        return tensor


def plan_run(
    config: Config, method: str, federation: Federation | None = None, *, workers: int = 1, deadline: float = 2.0
) -> PlanSummary:
    """Check everything, train nothing: steps are timed for `deadline` seconds, on copies that are thrown away.

    The time of several workers is that of one with its share of the clients, and does not count what they exchange.

    >>> plan_run(Config(clients=4, participation=1.0, partition="iid"), "smofi", deadline=0.1).eligible
    4
    """
    parsed = parse_method(method)
    arguments = config.arguments(federation, parsed.name)
    session = prepare(**arguments, method=parsed, workers=FirstWorker(workers) if workers > 1 else OneWorker())
    planner, state, simulation = session.run.planner, session.run.state, session.run.simulation
    session.run.evaluator.workers = OneWorker()
    plans = [planner.intended(round, planner.eligible) for round in range(min(config.rounds, MOST_ROUNDS))]
    steps = fmean(sum(plan.steps) for plan in plans)
    ticks = fmean(_ticks(plan, parsed) for plan in plans[:MOST_SCHEDULES])
    rounds = [round_memory(simulation, plan) for plan in plans]
    fullest = max(rounds, key=lambda items: sum(item.bytes for item in items))
    data = [*arguments["clients"], arguments["validation"], arguments["test"]]
    evaluated = ceil(config.rounds / config.eval_every) / config.rounds  # the share of the rounds
    with own_random_state(state.weights.device):
        activations = activation_memory(simulation, plans[0])
        alone = replace(simulation, workers=OneWorker())
        measured = time_rounds(alone, session.run.evaluator, plans, deadline)
    measured = replace(measured, evaluation=measured.evaluation / workers)
    share = fmean(_share(plan, 1 if parsed.where.one_server else workers) for plan in plans)
    return PlanSummary(
        method=parsed.name,
        rounds=config.rounds,
        clients=len(planner.sizes),
        eligible=len(planner.eligible),
        per_round=planner.per_round,
        samples=(min(planner.sizes), median(planner.sizes), max(planner.sizes)),
        validation=len(arguments["validation"] or ()),
        test=len(arguments["test"]),
        steps_per_round=steps,
        parameters=session.layout.size,
        sides=_sides(session),
        memory=(*fullest, activations, *lasting_memory(state, session.model, data)),
        measured=measured,
        seconds_per_round=measured.per_round(share * steps, ticks) - (1 - evaluated) * measured.evaluation,
        workers=workers,
    )


def _share(plan: RoundPlan, workers: int) -> float:
    """Of a round's steps, how many the worker with the most of them takes."""
    return max(sum(plan.steps[row] for row in rows) for rows in deal(plan.steps, workers)) / sum(plan.steps)


def _ticks(plan: RoundPlan, method: Method) -> float:
    """How many ticks a round has; if they are too many to be counted, as if the others had as many steps each."""
    first = [sum(map(len, tick.groups)) for tick in islice(plan.ticks(method), MOST_TICKS)]
    return len(first) * max(1.0, sum(plan.steps) / max(1, sum(first)))


def _sides(session: Session) -> tuple[CutParameters, ...]:
    layout = session.layout
    servers = {cut: columns_in(cut.server(layout)) for cut in session.run.planner.cuts.options}
    return tuple(CutParameters(str(cut), layout.size - server, server) for cut, server in servers.items())
