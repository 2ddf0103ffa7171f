"""A run put together from what it is made of, after a real step and an evaluation have been tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from smofi.data.augment import Augment
from smofi.data.samples import Samples
from smofi.engine.at_once.choice import MOST_AT_ONCE
from smofi.engine.at_once.executor import choose
from smofi.engine.check import check_samples, try_evaluation, try_step
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.split import Cast, Loss, Wire
from smofi.engine.cpu.freed_memory import keep_freed_memory
from smofi.engine.cpu.quicken import quicken
from smofi.engine.diagnostics import Diagnostics
from smofi.engine.evaluate import Evaluator, Metric
from smofi.engine.events import Callback
from smofi.engine.memory.limit import most_at_once
from smofi.engine.plan import Planner
from smofi.engine.processes.crew import Crew
from smofi.engine.run import Run
from smofi.engine.state import GlobalState
from smofi.engine.stopping import Stopping
from smofi.errors import refuse
from smofi.flat import Layout, shell
from smofi.method import Method
from smofi.models.dropout import seeded
from smofi.optim import Optimizer


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSpec:
    """What a run is made of: values, not names, each of them checked by itself. `model` is on the device already."""

    model: nn.Sequential
    layout: Layout
    device: torch.device
    planner: Planner
    method: Method
    optimizer: Optimizer
    clients: Sequence[Samples]
    test: Samples | None
    validation: Samples | None
    loss: Loss
    metrics: Sequence[str | Metric]
    rounds: int
    eval_every: int
    stopping: Stopping
    callback: Callback | None
    crew: Crew | None
    wire: Wire | None
    augment: Augment | None
    cast: Cast
    compiled: bool
    diagnose: bool
    executor: str
    memory_limit: int | str | None


def assemble(spec: RunSpec) -> Run:
    """The run, ready to train. Refuses data, a model and a loss that do not fit each other, and too much memory."""
    keep_freed_memory()
    template = quicken(seeded(shell(spec.model)))
    state = GlobalState.of(template, spec.layout, spec.method, spec.optimizer, spec.device)
    evaluator = _evaluator(spec, template, state)
    _try_out(spec, template, state, evaluator)
    if spec.diagnose and spec.crew and spec.crew.size > 1:
        refuse("diagnose", True, f"False with {spec.crew.size} workers: it compares all clients in one process")
    cohort = SimulatedCohort(
        template,
        spec.layout,
        state,
        spec.method,
        spec.optimizer,
        spec.clients,
        spec.loss,
        spec.wire,
        Diagnostics() if spec.diagnose else None,
        spec.augment,
        spec.crew,
        spec.cast,
        spec.compiled,
    )
    planner = spec.planner
    planner.plan(0)  # refuses devices that are never there
    most = MOST_AT_ONCE
    if spec.memory_limit is not None:
        most = most_at_once(spec.memory_limit, cohort, planner, evaluator, spec.rounds, most)
    cohort.choice = choose(spec.executor, cohort, planner.intended(0, planner.eligible), most)
    return Run(cohort, planner, state, evaluator, spec.stopping, spec.rounds, spec.callback, spec.crew, spec.eval_every)


def _evaluator(spec: RunSpec, template: nn.Sequential, state: GlobalState) -> Evaluator:
    """Judges the global weights: its model's parameters are views of them."""
    judged = shell(template)
    spec.layout.bind(judged, state.weights.__getitem__, state.statistics.__getitem__)
    return Evaluator(judged, spec.loss, spec.metrics, spec.test, spec.clients, spec.validation, crew=spec.crew)


def _try_out(spec: RunSpec, template: nn.Sequential, state: GlobalState, evaluator: Evaluator) -> None:
    """Evaluate a few samples and take a step, on copies."""
    held_out = {"test": spec.test, "validation": spec.validation}
    first = spec.planner.eligible[0]
    outputs = try_evaluation(evaluator, spec.clients[first], f"clients[{first}]")
    check_samples(spec.clients, held_out, spec.loss, outputs)
    for name, samples in held_out.items():
        if samples is not None:
            try_evaluation(evaluator, samples, name)
    try_step(template, spec.layout, state, spec.planner, spec.clients, spec.loss, spec.augment)
