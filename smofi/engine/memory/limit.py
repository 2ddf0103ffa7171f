"""A limit on memory: how many clients may be computed at once within it, or why nothing fits."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import torch

from smofi.engine.cohort.noise import own_random_state
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cpu.widest import widest_operation
from smofi.engine.evaluate import Evaluator
from smofi.engine.memory.needs import Memory, activation_memory, round_memory
from smofi.engine.plan import Planner
from smofi.engine.processes.forked import Forked
from smofi.errors import refuse
from smofi.seeds import untouched_streams

UNITS = {
    "": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
ROUNDS = 50
"""As many rounds are looked at for the fullest one."""


def parse_bytes(name: str, value: int | str) -> int:
    """A size as a number of bytes.

    >>> parse_bytes("memory_limit", "1.5GB"), parse_bytes("memory_limit", 4096)
    (1500000000, 4096)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", str(value).upper())
    unit = found[2] + ("B" if found[2] and not found[2].endswith("B") else "") if found else ""
    if isinstance(value, bool) or not found or (unit.removesuffix("B") and unit not in UNITS):
        refuse(name, value, "a number of bytes, or as 500MB, 2GB or 1.5GiB")
    return int(float(found[1]) * UNITS["" if unit == "B" else unit])


def most_at_once(
    limit: int | str, cohort: SimulatedCohort, planner: Planner, evaluator: Evaluator, rounds: int, most: int
) -> int:
    """How many clients fit at once, at most `most`. Refuses what does not fit even client by client.

    The limit is that of all workers on this machine.
    """
    allowed, device = parse_bytes("memory_limit", limit), cohort.state.weights.device
    workers = int(os.environ.get("LOCAL_WORLD_SIZE", cohort.crew.size))
    taken = _taken(device)
    shared = isinstance(cohort.crew, Forked)  # forked processes have program and data in common
    plans = [planner.intended(round, planner.eligible) for round in range(min(rounds, ROUNDS))]
    with untouched_streams(), own_random_state(device):
        step, judging = activation_memory(cohort, plans[0]).bytes, _evaluation(evaluator)
    if cohort.shares_server and not cohort.method.where.merges:
        step *= -(-planner.per_round // cohort.crew.size)  # all clients of a process are under way together

    def needed(at_once: int) -> list[Memory]:
        fullest = max((round_memory(cohort, plan, at_once) for plan in plans), key=_total)
        largest, wide = max(step * max(1, at_once), judging), max(1, at_once)
        gradients = wide * cohort.layout.size * cohort.layout.dtype.itemsize
        return [
            *fullest,
            Memory("activations", f"of {wide} at once or of an evaluation", largest),
            Memory("gradients on their way", f"{wide} x {cohort.layout.size:,}", gradients),
        ]

    def total(at_once: int) -> int:
        return (1 if shared else workers) * taken + workers * _total(needed(at_once))

    if total(0) > allowed:
        sums = ", ".join(f"{item.what} {item.arithmetic}" for item in needed(0) if item.bytes > _total(needed(0)) / 50)
        crowd = f"{workers} workers x " if workers > 1 else ""
        everyone = crowd and not shared
        refuse(
            "memory_limit",
            limit,
            f"at least {_megabytes(total(0))} = {crowd if everyone else ''}{_megabytes(taken)} that a process takes "
            f"already + {crowd}{_megabytes(_total(needed(0)))} for {sums}. A smaller model, a lower participation or "
            f"fewer workers need less",
        )
    return next(count for count in range(most, -1, -1) if total(count) <= allowed)


def _total(items: list[Memory]) -> int:
    return sum(item.bytes for item in items)


def _taken(device: torch.device) -> int:
    """What this process takes already."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _evaluation(evaluator: Evaluator) -> int:
    """What the widest operation of an evaluation takes and gives, from that of one sample."""
    held_out = evaluator.held_out
    if not held_out:
        return 0
    inputs, _ = held_out[0].batch(torch.zeros(1, dtype=torch.int64, device=next(evaluator.model.parameters()).device))
    return widest_operation(evaluator.model, inputs) * min(evaluator.batch_size, max(map(len, held_out)))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"
