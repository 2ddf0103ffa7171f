"""A limit on memory: how many clients may be computed at once within it, or why nothing fits."""

from __future__ import annotations

import os

import torch

from smofi.engine.cohort.simulation import Simulation
from smofi.engine.cpu.widest import widest_of_batch
from smofi.engine.evaluate import Evaluator
from smofi.engine.memory.needs import Memory, activation_memory, round_memory
from smofi.engine.noise import own_random_state
from smofi.engine.plan import Planner
from smofi.engine.processes.forked import ForkedWorkers
from smofi.errors import InputError, check_size, refuse
from smofi.memory import in_use
from smofi.plural import plural
from smofi.seeds import untouched_streams

ROUNDS = 50
"""How many rounds are looked at, to find the one that needs the most memory."""


def most_at_once(
    limit: int | str, simulation: Simulation, planner: Planner, evaluator: Evaluator, rounds: int, most: int
) -> int:
    """How many clients fit at once, at most `most`. Refuses what does not fit even client by client.

    The limit is that of all workers on this machine.
    """
    allowed, device = check_size("memory_limit", limit), simulation.state.weights.device
    workers = int(os.environ.get("LOCAL_WORLD_SIZE", simulation.workers.size))
    in_use = in_use_on(device)
    shared = isinstance(simulation.workers, ForkedWorkers)  # forked processes have program and data in common
    plans = [planner.intended(round, planner.eligible) for round in range(min(rounds, ROUNDS))]
    with untouched_streams(), own_random_state(device):
        step, judging = activation_memory(simulation, plans[0]).bytes, _evaluation(evaluator)
    if simulation.shares_server and not simulation.setup.method.where.merges:
        step *= -(-planner.per_round // simulation.workers.size)  # all clients of a process are under way together

    def needed(at_once: int) -> list[Memory]:
        fullest = max((round_memory(simulation, plan, at_once) for plan in plans), key=total_of)
        largest, rows_at_once = max(step * max(1, at_once), judging), max(1, at_once)
        gradients = rows_at_once * simulation.setup.layout.size * simulation.setup.layout.dtype.itemsize
        return [
            *fullest,
            Memory("activations", f"of {plural(rows_at_once, 'client')}, or of an evaluation", largest),
            Memory("gradients before they are copied", f"{rows_at_once} x {simulation.setup.layout.size:,}", gradients),
        ]

    def total(at_once: int) -> int:
        return (1 if shared else workers) * in_use + workers * total_of(needed(at_once))

    if total(0) > allowed:
        sums = ", ".join(
            f"{item.what} {item.arithmetic}" for item in needed(0) if item.bytes > total_of(needed(0)) / 50
        )
        times_workers = f"{workers} workers x " if workers > 1 else ""
        refuse(
            "memory_limit",
            limit,
            f"at least {_megabytes(total(0))} = {'' if shared else times_workers}{_megabytes(in_use)} that a "
            f"process already uses + {times_workers}{_megabytes(total_of(needed(0)))} for {sums}. A smaller model, "
            f"a lower participation or fewer workers need less",
        )
    return next(count for count in range(most, -1, -1) if total(count) <= allowed)


def total_of(items: list[Memory]) -> int:
    """The bytes of all of them."""
    return sum(item.bytes for item in items)


def in_use_on(device: torch.device) -> int:
    """The memory that this process uses already, that of a GPU where it computes there."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    if (used := in_use()) is None:
        raise InputError("memory_limit is not accepted: this system does not say how much memory a process uses")
    return used


def _evaluation(evaluator: Evaluator) -> int:
    """What the widest operation of an evaluation takes and gives, worked out from two samples."""
    held_out = evaluator.held_out
    if not held_out:
        return 0
    inputs, _ = held_out[0].batch(torch.zeros(2, dtype=torch.int64, device=next(evaluator.model.parameters()).device))
    return widest_of_batch(evaluator.model, inputs, min(evaluator.batch_size, max(map(len, held_out))))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"
