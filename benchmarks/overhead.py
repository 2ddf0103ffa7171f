"""What a round costs beside the bare forward and backward pass on the same samples.

Both are timed in turn, repetition after repetition, in one process on one thread, so that a noisy machine disturbs them
alike; a round is compared with the mean of the bare passes just before and just after it, and the median over the
repetitions is reported.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import copy
import resource
import statistics
from collections.abc import Callable
from functools import partial

import torch
from settings import Setting, repetitions_asked_for, seconds, settings
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import smofi
from smofi.data import batch_order
from smofi.engine.kernels import convolutions, suits_onednn
from smofi.engine.plan import RoundPlan


def bare_pass(model: nn.Module, clients: list[tuple[Tensor, Tensor]], plan: RoundPlan) -> Callable[[], None]:
    """Forward and backward on exactly the batches of the plan, gathered beforehand, and nothing else."""
    model = copy.deepcopy(model).train()
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    batches = []
    for row, client in enumerate(plan.clients):
        inputs, targets = clients[client]
        keys = {"seed": plan.seed, "round": plan.round, "client": client}
        order = batch_order(len(targets), plan.batch_sizes[row], plan.steps[row], **keys)
        batches += [(inputs[i].contiguous(memory_format=torch.channels_last), targets[i]) for i in order]

    onednn = suits_onednn(model, max(plan.batch_sizes), batches[0][0][0, 0].numel())  # as in a round

    def run() -> None:
        with convolutions(onednn):
            for inputs, targets in batches:
                cross_entropy(model(inputs), targets).backward()

    return run


def measure(setting: Setting, repetitions: int) -> None:
    """Print the ratio of a SMoFi and a FedAvg round to the bare pass, and the memory the rows take."""
    model, clients = setting.model, setting.clients
    sessions = {name: smofi.prepare(model, clients, method=name, **setting.arguments) for name in ("smofi", "fedavg")}
    plan = sessions["smofi"].run.planner.plan(0)
    work = bare_pass(model, clients, plan)
    ratios: dict[str, list[float]] = {method: [] for method in sessions}
    bares: list[float] = []
    for repetition in range(-1, repetitions):
        bares.append(seconds(work))
        for method, session in list(sessions.items())[:: 1 if repetition % 2 else -1]:  # in turn the first to come
            taken = seconds(partial(session.run.one_round, plan))
            bares.append(seconds(work))
            if repetition >= 0:  # the first one warms up
                ratios[method].append(taken / statistics.mean(bares[-2:]))
    rows, size = len(plan.clients), len(sessions["smofi"].run.state.weights)
    print(f"\n{setting.name}: {rows} clients, {sum(plan.steps)} steps, {size:,} parameters")
    print(f"  bare forward and backward  {statistics.median(bares[1:]):7.3f} s a round")
    for method, values in ratios.items():
        spread = f"{min(values):.3f} to {max(values):.3f}"
        print(f"  {method:<8} {statistics.median(values):.3f}x the bare pass ({spread}, {repetitions} repetitions)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  rows x P {rows * size * 4 / 2**20:.1f} MiB, peak memory of the process {peak:.0f} MiB")


def main() -> None:
    repetitions = repetitions_asked_for(__doc__)
    for setting in settings():
        measure(setting, repetitions)


if __name__ == "__main__":
    main()
