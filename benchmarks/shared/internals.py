"""What the programs use of smofi beyond its public names, so that a change inside smofi is followed in one place."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy

from smofi import Event, Record, Session
from smofi.data import batch_order
from smofi.data.partitions import class_counts, divergence
from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.cohort.diagnostics import Diagnostics
from smofi.engine.cohort.halves import ServerHalf
from smofi.engine.cohort.wire import COMPRESSIONS, Compression
from smofi.engine.cpu.freed_memory import keep_freed_memory
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.cpu.quicken import quicken
from smofi.engine.memory.needs import activation_memory, lasting_memory, round_memory
from smofi.engine.noise import give_keys
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import DistributedWorkers, OneWorker, Workers
from smofi.experiment.opening import provenance
from smofi.flat import Layout, shell
from smofi.models.dropout import dropouts
from smofi.net.frames import Frame, encode, read
from smofi.training import arguments_of, make_planner

__all__ = [
    "COMPRESSIONS",
    "Compression",
    "Frame",
    "OneWorker",
    "Workers",
    "Diagnostics",
    "ForkedWorkers",
    "Layout",
    "ClientsAtOnce",
    "RoundPlan",
    "DistributedWorkers",
    "arguments_of",
    "bare_pass",
    "class_counts",
    "divergence",
    "make_planner",
    "convolutions",
    "deal",
    "dropouts",
    "encode",
    "evaluation",
    "first_plan",
    "give_keys",
    "keep_freed_memory",
    "one_round",
    "parameters",
    "planned_bytes",
    "provenance",
    "quicken",
    "read",
    "server_share",
    "shell",
    "suits_onednn",
    "tell",
]


def first_plan(session: Session) -> RoundPlan:
    """The plan of the session's first round."""
    return session.run.planner.plan(0)


def parameters(session: Session) -> int:
    """How many parameters the session's model has."""
    return session.layout.size


def one_round(session: Session, round: int = 0) -> Callable[[], Record]:
    """A round of the session, the first if not told otherwise; each call starts from the weights of the one before."""
    return lambda: session.run.one_round(session.run.planner.plan(round))


def server_share(work: Callable[[], object]) -> float:
    """The server's share of a call's time, its updates included, where the split is executed for real."""
    server = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal server
            started = time.perf_counter()
            try:
                return method(*given)
            finally:
                server += time.perf_counter() - started

        return call

    with ExitStack() as patches:
        for part in ("forward", "loss", "backward", "update"):
            patches.enter_context(patch.object(ServerHalf, part, timed(getattr(ServerHalf, part))))
        started = time.perf_counter()
        work()
        return server / (time.perf_counter() - started)


def evaluation(session: Session) -> Callable[[], object]:
    """The evaluation of the session's global model."""
    return session.run.evaluator.evaluate


def tell(session: Session, event: Event) -> None:
    """Hand an event to the session's callback."""
    session.run.emit(event)


def bare_pass(session: Session, plan: RoundPlan, rows: Sequence[int] | None = None) -> Callable[[], None]:
    """Forward and backward on exactly the batches of the plan, gathered beforehand, and nothing else.

    With the layers, the memory format and the convolution kernels of a round; dropout is torch's own. `rows` are the
    clients of the plan to compute, all if not given.
    """
    simulation = session.run.simulation
    model, clients = copy.deepcopy(simulation.setup.template).train(), simulation.clients
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    batches = []
    for row in range(len(plan.clients)) if rows is None else rows:
        samples = clients[plan.clients[row]]
        keys = {"seed": plan.seed, "round": plan.round, "client": plan.clients[row]}
        order = batch_order(len(samples), plan.batch_sizes[row], plan.steps[row], **keys)
        batches += [samples.batch(torch.from_numpy(indices)) for indices in order]
    pixels = min(clients[client].pixels for client in plan.clients)
    onednn = suits_onednn(model, max(plan.batch_sizes), pixels)

    def run() -> None:
        with convolutions(onednn):
            for inputs, targets in batches:
                cross_entropy(model(inputs), targets).backward()

    return run


def planned_bytes(session: Session) -> int:
    """The memory that `smofi plan` accounts for, if the session's first round is the largest."""
    simulation, plan = session.run.simulation, first_plan(session)
    items = [
        *round_memory(simulation, plan),
        activation_memory(simulation, plan),
        *lasting_memory(session.run.state, session.model, simulation.clients),
    ]
    return sum(item.bytes for item in items)
