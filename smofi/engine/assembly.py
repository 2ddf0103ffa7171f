"""A run put together from what it is made of, after a real step and an evaluation have been tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from smofi.data.augment import Augment
from smofi.data.samples import Samples
from smofi.engine.check import check_samples, try_evaluation, try_step
from smofi.engine.cohort.choosing import choose
from smofi.engine.cohort.execution import MOST_AT_ONCE, Execution
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cpu.freed_memory import keep_freed_memory
from smofi.engine.cpu.quicken import quicken
from smofi.engine.evaluate import Evaluator, Judges, Metric
from smofi.engine.events import Callback
from smofi.engine.memory.limit import most_at_once
from smofi.engine.metrics import is_share
from smofi.engine.plan import Planner
from smofi.engine.processes.workers import OneWorker, Workers
from smofi.engine.run import Run
from smofi.engine.state import GlobalState
from smofi.engine.stopping import Stopping
from smofi.errors import check_number, refuse
from smofi.flat import shell
from smofi.models.dropout import seeded


@dataclass(frozen=True, eq=False)
class RunData:
    """The samples of a run: those of each client, which `augment` varies, and those held out, for all clients or from
    each of them. Clients may have names."""

    clients: Sequence[Samples]
    test: Samples | None = None
    validation: Samples | None = None
    augment: Augment | None = None
    client_tests: Sequence[Samples | None] | None = None
    client_names: Sequence[str] = ()

    @property
    def held_out(self) -> dict[str, Samples]:
        """The test and validation samples, by name, where there are any."""
        named = {"test": self.test, "validation": self.validation}
        return {name: samples for name, samples in named.items() if samples is not None}

    @property
    def held_out_by_clients(self) -> dict[str, Samples]:
        """The clients' own test samples, likewise."""
        return {f"client_tests[{i}]": samples for i, samples in enumerate(self.client_tests or ()) if samples}


@dataclass(frozen=True, eq=False)
class RunLength:
    """How many rounds to run, when and how to evaluate them, when to stop early, and the callback."""

    rounds: int
    eval_every: int = 1
    metrics: Sequence[str | Metric] = ("top1",)
    stopping: Stopping = field(default_factory=Stopping)
    callback: Callback | None = None


@dataclass(frozen=True, eq=False)
class Resources:
    """What a run is computed with: its workers, how many clients at once, and a limit on memory."""

    workers: Workers | None = None
    executor: str = "loop"
    memory_limit: int | str | None = None
    diagnose: bool = False


def template_of(model: nn.Sequential) -> nn.Sequential:
    """The structure that a run computes with: seeded dropout, and the same layers with less work."""
    keep_freed_memory()
    return quicken(seeded(shell(model)))


def assemble(setup: Setup, data: RunData, planner: Planner, length: RunLength, resources: Resources) -> Run:
    """The run, ready to train. Refuses data, a model and a loss that do not fit each other, and too much memory."""
    device = next(iter(setup.template.parameters())).device
    state = GlobalState.of(setup.template, setup.layout, setup.method, setup.optimizer, device)
    workers, trial = resources.workers or OneWorker(), setup.in_one_thread
    evaluator = _evaluator(setup, state, data, length.metrics, workers)
    if _try_out(trial, state, data, planner, evaluator):
        setup, trial = (replace(one, passes=replace(one.passes, draws=True)) for one in (setup, trial))
    if resources.diagnose and workers.size > 1:
        refuse("diagnose", True, f"False with {workers.size} workers: it compares all clients in one process")
    simulation = Simulation(trial, state, data.clients, data.augment, workers, diagnose=resources.diagnose)
    planner.plan(0)  # refuses devices that are never available
    room_for = MOST_AT_ONCE
    if resources.memory_limit is not None:
        room_for = most_at_once(resources.memory_limit, simulation, planner, evaluator, length.rounds, room_for)
    execution = Execution()  # further workers are told by the first
    if workers.rank == 0:
        execution = choose(resources.executor, simulation, planner.intended(0, planner.eligible), room_for)
    simulation = replace(simulation, setup=setup, execution=execution)
    stopping = _stopping(length.stopping, evaluator)
    return Run(simulation, planner, evaluator, stopping, length.rounds, length.callback, length.eval_every)


def _evaluator(
    setup: Setup, state: GlobalState, data: RunData, metrics: Sequence[str | Metric], workers: Workers
) -> Evaluator:
    """Judges the global weights: its model's parameters are views of them."""
    judged = shell(setup.template)
    setup.layout.bind(judged, state.weights.__getitem__, state.statistics.__getitem__)
    samples = Judges(data.test, data.validation, data.clients, data.client_tests, data.client_names)
    return Evaluator(judged, setup.loss, metrics, samples, workers=workers)


def _stopping(asked: Stopping, evaluator: Evaluator) -> Stopping:
    """When to stop, by the metric that is judged."""
    names, (validated, _) = evaluator.headings, evaluator.validated
    judged = next(iter(names))
    decides = judged if evaluator.validation is None else validated
    if asked.target_accuracy is not None and is_share(decides):
        check_number("target_accuracy", asked.target_accuracy, above=0, high=1)
    return replace(asked, judged=judged, validated=validated, headings=names)


def _try_out(setup: Setup, state: GlobalState, data: RunData, planner: Planner, evaluator: Evaluator) -> bool:
    """Evaluate a few samples and take a step, on copies. Returns what `try_step` does."""
    number = planner.eligible[0]
    first = {f"clients[{number}]": data.clients[number]}
    (outputs,) = (try_evaluation(evaluator, samples, name, measures=False) for name, samples in first.items())
    check_samples(data.clients, data.held_out | data.held_out_by_clients, setup.loss, outputs)
    for name, samples in (first | data.held_out).items():
        try_evaluation(evaluator, samples, name)
    return try_step(setup, state, planner, data.clients, data.augment)
