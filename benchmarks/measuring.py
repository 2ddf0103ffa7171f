"""How the benchmarks measure: the bare pass that rounds are compared with, one process or several, and memory."""

from __future__ import annotations

import copy
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from settings import seconds
from torch.nn.functional import cross_entropy

from smofi import Session
from smofi.data import batch_order
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.crew import Alone, Crew
from smofi.engine.processes.forked import Forked

Found = TypeVar("Found")


def bare_pass(session: Session, plan: RoundPlan, rows: Sequence[int] | None = None) -> Callable[[], None]:
    """Forward and backward on exactly the batches of the plan, gathered beforehand, and nothing else.

    With the layers, the memory format and the convolution kernels of a round; dropout is torch's own. `rows` are those
    clients of the plan that count, all if not given.
    """
    cohort = session.run.cohort
    assert isinstance(cohort, SimulatedCohort)
    model = copy.deepcopy(cohort.template).train()
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    batches = []
    for row in range(len(plan.clients)) if rows is None else rows:
        samples = cohort.clients[plan.clients[row]]
        keys = {"seed": plan.seed, "round": plan.round, "client": plan.clients[row]}
        order = batch_order(len(samples), plan.batch_sizes[row], plan.steps[row], **keys)
        batches += [samples.batch(torch.from_numpy(indices)) for indices in order]
    pixels = min(cohort.clients[client].pixels for client in plan.clients)
    onednn = suits_onednn(model, max(plan.batch_sizes), pixels)

    def run() -> None:
        with convolutions(onednn):
            for inputs, targets in batches:
                cross_entropy(model(inputs), targets).backward()

    return run


def one_round(session: Session) -> Callable[[], object]:
    """The session's first round, again and again from the weights that the last one has left."""
    return lambda: session.run.one_round(session.run.planner.plan(0))


def together(size: int, work: Callable[[Crew], Found]) -> Found:
    """What `work` gives the first of `size` processes that all do it; the others are gone when this returns."""
    if size == 1:
        return work(Alone())
    sys.stdout.flush()
    crew = Forked(size)
    crew.fork()
    try:
        found = work(crew)
    except BaseException:
        if crew.rank == 0:
            raise
        traceback.print_exc()
        os._exit(1)
    else:
        if crew.rank > 0:
            os._exit(0)
        return found
    finally:
        crew.end()


def alone(crew: Crew, work: Callable[[], object]) -> float:
    """The time of one call in the first process, while the others wait to be told it."""
    taken = seconds(work) if crew.rank == 0 else 0.0
    return float(crew.copy(torch.tensor(taken, dtype=torch.float64)))


def shared(crew: Crew, work: Callable[[], object]) -> float:
    """The time of one call in every process at once, until the last of them is done."""
    crew.copy(torch.zeros(1))
    return seconds(lambda: (work(), crew.sum(torch.zeros(1))))


def peak_memory() -> int:
    """The most bytes that this process has held; where the system does not say, since its parent's fork."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
