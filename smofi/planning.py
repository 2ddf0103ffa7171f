"""Say what a configuration will do and take, by planning its rounds; nothing is trained.

`plan_run` also times some real steps of a round, on copies that are thrown away. `advise` looks at every cut of a model
for a population of devices. The recommended cut has the least mean time per round; among cuts within 5 % of it, it is
the one at which clients compute least. Two things do not enter: what activations reveal, which is more the nearer the
cut is to the input, and how well a method trains with less of the model on the server.

Internal: may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import Tensor

from smofi.clock import Clock
from smofi.clock.replay import LATENCY, Leg
from smofi.config import Config
from smofi.config.federation import Federation
from smofi.cut import Cut, Cuts, parse_cut
from smofi.engine.check import check_plan
from smofi.engine.cohort.choosing import stopwatch
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.evaluate import Evaluator
from smofi.engine.memory.needs import Memory, activation_memory, lasting_memory, round_memory
from smofi.engine.noise import own_random_state
from smofi.engine.plan import Planner, RoundPlan
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import OneWorker
from smofi.errors import InputError
from smofi.flat import Layout, columns_in
from smofi.method import Method
from smofi.methods import parse_method
from smofi.training import arguments_of, as_samples, make_planner, prepare

# --------------------------------------------------------------------------------------------------------------------
# How long a round takes, from a few real steps: nothing that a run keeps is changed.

EVALUATED_BATCHES = 2


@dataclass(frozen=True)
class Seconds:
    """The measured seconds of a round's beginning, one client's step, the end of a tick, of a round, and an
    evaluation."""

    begin: float
    step: float
    tick: float
    end: float
    evaluation: float

    def per_round(self, steps: float, ticks: float) -> float:
        """Return the seconds of a round with this number of steps, of all clients together, and of ticks."""
        return self.begin + steps * self.step + ticks * self.tick + self.end + self.evaluation


def time_rounds(simulation: Simulation, evaluator: Evaluator, plans: Sequence[RoundPlan], deadline: float) -> Seconds:
    """Time rounds as planned, group by group, until `deadline` seconds are over; then one evaluation."""
    now = stopwatch(simulation.state.weights.device)

    def timed(function: Callable[..., Any], *arguments: Any) -> float:
        started = now()
        function(*arguments)
        return now() - started

    begin, step, tick, end = list[float](), list[float](), list[float](), list[float]()
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
                step.append(timed(cohort.step, groups) / sum(map(len, groups)))
                if now() > until:
                    break
            tick.append(timed(cohort.fuse))
            if planned.average:
                tick[-1] += timed(cohort.average_servers, planned.average)
            if now() > until:
                end.append(timed(cohort.close_rows))
                break
        else:
            end.append(0.0)
        end[-1] += timed(cohort.mean)  # the state itself is left alone
        if now() > until:
            break
    evaluation = 0.0
    for samples in evaluator.held_out:
        evaluated = min(len(samples), EVALUATED_BATCHES * evaluator.batch_size)
        evaluation += timed(evaluator.predict, samples, evaluated) * len(samples) / evaluated
    # medians, so that a moment in which the machine did something else does not count a thousandfold
    return Seconds(median(begin), median(step), median(tick), median(end), evaluation)


# --------------------------------------------------------------------------------------------------------------------
# A dry run: what a configuration will do and take, found by planning its rounds and timing some of its steps.

IN_COMMON = ("initial model", "data")  # what forked workers share
MOST_ROUNDS = 1000  # planned one by one; the rest are like these
MOST_SCHEDULES, MOST_TICKS = 20, 10_000  # whose ticks are counted one by one; how many of each of them


@dataclass(frozen=True)
class CutParameters:
    """The numbers of parameters that the client and the server have at one cut."""

    cut: str
    client: int
    server: int


@dataclass(frozen=True)
class PlanSummary:
    """A run's work and needs. `samples` are of the smallest, the median and the largest client; steps are all clients'
    together; memory is what one worker needs in the fullest round."""

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
        """Return the steps of all runs, of each seed one; exact up to a thousand rounds."""
        return round(self.seeds * self.rounds * self.steps_per_round)

    @property
    def bytes(self) -> int:
        """Return all workers' memory; Python and torch themselves take some hundred megabytes more."""
        return sum(item.bytes * (1 if item.what in IN_COMMON else self.workers) for item in self.memory)

    @property
    def seconds(self) -> float:
        """Return the seconds of all runs, of each seed one, unless one stops early."""
        return self.seeds * self.rounds * self.seconds_per_round


def over_seeds(plans: Sequence[PlanSummary]) -> PlanSummary:
    """Join the plans of a method's seeds, which run one after the other: the largest memory, and means."""
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
    """Plan as the first of several workers does: the others are not there, and nothing is exchanged."""

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
    ticks = fmean(_count_ticks(plan, parsed) for plan in plans[:MOST_SCHEDULES])
    rounds = [round_memory(simulation, plan) for plan in plans]
    fullest = max(rounds, key=lambda items: sum(item.bytes for item in items))
    data = [*arguments["clients"], arguments["validation"], arguments["test"]]
    evaluated = ceil(config.rounds / config.eval_every) / config.rounds  # the share of the rounds
    with own_random_state(state.weights.device):
        activations = activation_memory(simulation, plans[0])
        alone = replace(simulation, workers=OneWorker())
        measured = time_rounds(alone, session.run.evaluator, plans, deadline)
    measured = replace(measured, evaluation=measured.evaluation / workers)
    sharing = 1 if parsed.where.one_server else workers
    share = fmean(  # of a round's steps, how many the worker with the most of them takes
        max(sum(plan.steps[row] for row in rows) for rows in deal(plan.steps, sharing)) / sum(plan.steps)
        for plan in plans
    )
    servers = {cut: columns_in(cut.server(session.layout)) for cut in planner.cuts.options}
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
        sides=tuple(CutParameters(str(cut), session.layout.size - own, own) for cut, own in servers.items()),
        memory=(*fullest, activations, *lasting_memory(state, session.model, data)),
        measured=measured,
        seconds_per_round=measured.per_round(share * steps, ticks) - (1 - evaluated) * measured.evaluation,
        workers=workers,
    )


def _count_ticks(plan: RoundPlan, method: Method) -> float:
    """Count the ticks of a round; where they are too many, as if the others had as many steps each."""
    first = [sum(map(len, tick.groups)) for tick in islice(plan.ticks(method), MOST_TICKS)]
    return len(first) * max(1.0, sum(plan.steps) / max(1, sum(first)))


# --------------------------------------------------------------------------------------------------------------------
# Which cut? Every cut of a model, for a population of devices.

ROUNDS = 20  # planned at every cut: the first of the run, with the same clients
NEAR = 1.05  # times the least mean time per round: up to this, cuts count as equally good


@dataclass(frozen=True)
class Side:
    """The client's side of a cut: the share of the model's multiply-accumulates, and the parameters."""

    cut: str
    macs: float
    parameters: int


@dataclass(frozen=True)
class Outlook:
    """The `seconds` of each of a method's rounds at a cut. The rest is a client's in a round, the mean of all that take
    part: seconds of computing, bytes sent and received, the share of the time that it waits, and the seconds in which
    its messages are under way, however short they are."""

    seconds: tuple[float, ...]
    compute: float
    up: float
    down: float
    idle: float
    latency: float = 0.0

    @property
    def mean(self) -> float:
        return fmean(self.seconds)

    @property
    def spread(self) -> float:
        return stdev(self.seconds) if len(self.seconds) > 1 else 0.0


@dataclass(frozen=True)
class Advice:
    """All cuts, from the input on, and what each method's rounds take there; None where the method is refused.

    `config` is what was planned by, so it has a clock; `configured` is the place of its cut among these, None if that
    is not one for all clients and rounds.
    """

    config: Config
    rounds: int
    configured: int | None
    sides: tuple[Side, ...]
    outlooks: Mapping[str, tuple[Outlook | None, ...]]

    @property
    def alike(self) -> dict[tuple[Outlook | None, ...], list[str]]:
        """Group the methods that take the same at every cut."""
        found: dict[tuple[Outlook | None, ...], list[str]] = {}
        for method, outlooks in self.outlooks.items():
            found.setdefault(outlooks, []).append(method)
        return found


def advise(config: Config, federation: Federation | None = None, *, rounds: int = ROUNDS) -> Advice:
    """Plan the first rounds of a run at every cut of its model; without a clock, by a full one.

    A cut of the U shape keeps its end H; cuts drawn or given per client are not looked at, only one for all.

    >>> found = advise(Config(clients=4, participation=1.0, partition="iid", method="smofi", rounds=2))
    >>> [side.cut for side in found.sides]
    ['0', '1', '2', '3']
    """
    config = config.model_copy(update={"clock": "full"}) if config.clock == "none" else config
    given = config.arguments(federation)
    arguments = arguments_of(**given)
    layout = Layout.of(arguments.model)
    samples = [
        as_samples(data, f"clients[{number}]", layout.dtype, torch.device("cpu"))
        for number, data in enumerate(arguments.clients)
    ]
    configured_cuts = parse_cut(config.cut, layout, len(samples))
    cuts = single_cuts(configured_cuts)
    configured = cuts.index(configured_cuts.options[0]) if len(configured_cuts.options) == 1 else None
    rounds = min(rounds, config.rounds)
    outlooks = {}
    for method in config.method:
        planner = make_planner(arguments_of(**given, method=method), layout, samples)
        outlooks[method] = look_ahead(planner, cuts, rounds)
        timekeeper = planner.clock
    assert isinstance(timekeeper, Clock)
    sides = []
    for cut in cuts:
        costs = timekeeper.step_costs(cut)
        sides.append(Side(str(cut), costs.front + costs.back, layout.size - columns_in(cut.server(layout))))
    return Advice(config, rounds, configured, tuple(sides), outlooks)


def advise_each(config: Config, federations: Mapping[int, Federation], *, rounds: int = ROUNDS) -> Advice:
    """Plan the first rounds of a run with each seed's data, at every cut; give all rounds, and means over the seeds."""
    every = [advise(config.with_seed(seed), own, rounds=rounds) for seed, own in federations.items()]
    outlooks = {
        method: tuple(_together(at_cut) for at_cut in zip(*(one.outlooks[method] for one in every), strict=True))
        for method in config.method
    }
    return replace(every[0], config=every[0].config.model_copy(update={"seeds": config.seeds}), outlooks=outlooks)


def _together(outlooks: Sequence[Outlook | None]) -> Outlook | None:
    """Join the outlooks of a cut with all seeds; None if it is refused with one of them."""
    known = [outlook for outlook in outlooks if outlook]
    if len(known) < len(outlooks):
        return None
    rest = ("compute", "up", "down", "idle", "latency")
    means = {name: fmean(getattr(outlook, name) for outlook in known) for name in rest}
    return Outlook(tuple(second for outlook in known for second in outlook.seconds), **means)


def single_cuts(cuts: Cuts) -> list[Cut]:
    """Return every cut L of the same model, with the same H."""
    cut = cuts.options[0]
    return [replace(cut, first=first) for first in range(1, cut.last)]


def look_ahead(planner: Planner, cuts: Sequence[Cut], rounds: int) -> tuple[Outlook | None, ...]:
    """Return what the method's first rounds take at each cut; refuse it only if it can work at none of them."""
    outlooks: list[Outlook | None] = []
    refusals: list[InputError] = []
    for cut in cuts:
        at_cut = replace(planner, cuts=Cuts((cut,)))
        try:
            check_plan(at_cut, str(cut))
        except InputError as refusal:
            refusals.append(refusal)
            outlooks.append(None)
        else:
            outlooks.append(_outlook(at_cut, rounds))
    if len(refusals) == len(cuts):
        raise refusals[0]
    return tuple(outlooks)


def recommended(outlooks: Sequence[Outlook | None]) -> int:
    """Return the place of the cut that the rule at the top of this file chooses."""
    possible = {place: outlook for place, outlook in enumerate(outlooks) if outlook}
    least = min(outlook.mean for outlook in possible.values())
    near = [place for place, outlook in possible.items() if outlook.mean <= NEAR * least]
    return min(near, key=lambda place: (possible[place].compute, possible[place].mean))


def _outlook(planner: Planner, rounds: int) -> Outlook:
    timekeeper, now = planner.clock, 0.0
    assert isinstance(timekeeper, Clock)
    seconds, compute, latency, idle = list[float](), list[float](), list[float](), list[float]()
    up, down = list[int](), list[int]()

    def own(legs: Sequence[Leg], kind: str) -> float:
        return sum(leg.seconds for leg in legs if leg.kind == kind)

    for round in range(rounds):
        plan = planner.plan(round, now)
        time = plan.time
        assert time
        seconds.append(time.ended - now)
        jobs = timekeeper.jobs(plan, time.began)
        compute += [job.steps * own(job.step, "compute") for job in jobs]
        latency += [job.steps * own(job.step, LATENCY) + own(job.fetch + job.give, LATENCY) for job in jobs]
        up, down, idle, now = up + time.bytes_up, down + time.bytes_down, idle + time.idle, time.ended
    return Outlook(tuple(seconds), fmean(compute), fmean(up), fmean(down), fmean(idle), fmean(latency))
