"""A limit on memory: how many clients may be computed at once within it, or why nothing fits."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import torch
from torch import Tensor, nn

from smofi.engine.evaluate import Evaluator
from smofi.engine.memory import Memory, activation_memory, round_memory
from smofi.engine.noise import own_random_state
from smofi.engine.plan import Planner
from smofi.engine.simulated import SimulatedCohort
from smofi.errors import refuse

UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
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
    limit: int, cohort: SimulatedCohort, planner: Planner, evaluator: Evaluator, rounds: int, most: int
) -> int:
    """How many clients fit at once, at most `most`; 0 if client by client is all that fits. Refuses what does not fit.

    The limit is that of all workers on this machine.
    """
    device = cohort.state.weights.device
    workers = int(os.environ.get("LOCAL_WORLD_SIZE", cohort.crew.size))
    plans = [planner.plan(round) for round in range(min(rounds, ROUNDS))]
    with own_random_state(device):
        step, judging = activation_memory(cohort, plans[0]).bytes, _evaluation(evaluator)
    taken = _taken(device)

    def needed(at_once: int) -> list[Memory]:
        fullest = max((round_memory(cohort, plan, at_once) for plan in plans), key=_total)
        largest = max(step * max(1, at_once), judging)
        return [*fullest, Memory("activations", f"of {max(1, at_once)} at once or of an evaluation", largest)]

    def total(at_once: int) -> int:
        return workers * (taken + _total(needed(at_once)))

    if total(0) > limit:
        crowd = f"{workers} workers x " if workers > 1 else ""
        sums = ", ".join(f"{item.what} {item.arithmetic}" for item in needed(0) if item.bytes > _total(needed(0)) / 50)
        refuse(
            "memory_limit",
            _megabytes(limit),
            f"at least {_megabytes(total(0))} = {crowd}({_megabytes(taken)} that a process takes already + "
            f"{_megabytes(_total(needed(0)))} for {sums}). A smaller model, a lower participation or fewer workers "
            f"need less",
        )
    return next((count for count in range(most, 0, -1) if total(count) <= limit), 0)


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
    """What the widest layer takes and gives in an evaluation, from that of a few samples."""
    held_out = evaluator.held_out
    if not held_out:
        return 0
    samples, widest = held_out[0], 0

    def look(layer: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        nonlocal widest
        tensors = [one for one in (*inputs, output) if isinstance(one, Tensor)]
        widest = max(widest, sum(tensor.numel() * tensor.element_size() for tensor in tensors))

    leaves = [layer for layer in evaluator.model.modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(look) for layer in leaves]
    try:
        with torch.inference_mode():
            inputs, _ = samples.batch(torch.arange(1, device=next(evaluator.model.parameters()).device))
            evaluator.model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return widest * min(evaluator.batch_size, max(map(len, held_out)))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"
