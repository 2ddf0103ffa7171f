"""How far smofi and the plain loop are apart, over several seeds: weights after a round, accuracies over ten.

python benchmarks/peers/agree.py --seeds 0 1 2 3 4 --fashion-mnist DIR --cifar10 DIR

A seed has a partition, initial weights, cohorts and batches of its own. One process, one thread. Prints a line of JSON
for each workload and seed, then the least and the most over the seeds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from plain_loop import averaged
from prepare import FOLDERS, WORKLOADS, prepare
from table import Arrays, apart
from torch import Tensor
from workload import Workload, accuracy

import smofi
from smofi.config import Config

NUDGE = 1e-7
"""By how much of themselves initial weights are changed, to see what float32's noise grows to."""


def plain(folder: Path, rounds: int, *, nudged: bool = False, **layout: bool) -> tuple[list[float], Arrays]:
    """The accuracies of the plain loop, and its weights after the first round."""
    work = Workload(folder, **layout)
    model = work.model()
    if nudged:
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.mul_(1 + NUDGE * torch.randn(tensor.shape, generator=draw))
    accuracies: list[float] = []
    first: Arrays = {}
    for _ in averaged(model, work, rounds):
        first = first or arrays(model.state_dict())
        accuracies.append(accuracy(model, work))
    return accuracies, first


def ours(config: Config, rounds: int, *, executor: str = "loop", double: bool = False) -> tuple[list[float], Arrays]:
    """The same by smofi."""
    given = config.arguments() | {"method": "fedavg", "rounds": rounds, "executor": executor}
    if double:
        given["model"] = given["model"].double()
        given["clients"], given["test"] = [in_double(one) for one in given["clients"]], in_double(given["test"])
    first = smofi.train(**given | {"rounds": 1})
    history = smofi.train(**given).history if rounds > 1 else first.history
    return [record.accuracy or 0.0 for record in history], arrays(first.model.state_dict())


def in_double(samples: Any) -> tuple[Tensor, Tensor]:
    """Inputs in float64, and their targets."""
    inputs, targets = samples.tensors()
    return inputs.double(), targets


def arrays(state: Mapping[str, Tensor]) -> Arrays:
    """Copies of the tensors, as arrays."""
    return {name: tensor.detach().clone().numpy() for name, tensor in state.items()}


def farthest(some: list[float], others: list[float]) -> float:
    """The largest difference between two accuracies of a round, in points."""
    return 100 * max(abs(one - other) for one, other in zip(some, others, strict=True))


def compare(folder: Path, config: Config, rounds: int) -> dict[str, float]:
    """All that is stated about one workload with one seed."""
    start = arrays(Workload(folder).model().state_dict())
    accuracies, weights = plain(folder, rounds)
    last_accuracies, last = plain(folder, rounds, channels_last=True)
    own_accuracies, own = ours(config, rounds)
    nudged_accuracies, nudged = plain(folder, rounds, nudged=True)
    exact = plain(folder, 1, double=True)[1]
    return {
        "smofi from plain": apart(own, weights, start),
        "smofi from plain, many clients at once": apart(ours(config, 1, executor="vmap")[1], weights, start),
        "smofi from channels-last plain": apart(own, last, start),
        "channels-last plain from plain": apart(last, weights, start),
        "nudged plain from plain": apart(nudged, weights, start),
        "smofi from plain, float64": apart(ours(config, 1, double=True)[1], exact, start),
        "points, smofi from plain": farthest(own_accuracies, accuracies),
        "points, channels-last plain from plain": farthest(last_accuracies, accuracies),
        "points, nudged plain from plain": farthest(nudged_accuracies, accuracies),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--fashion-mnist", type=Path, help="folder with the official files")
    parser.add_argument("--cifar10", type=Path, help="folder with the official files")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lr", type=float, help="learning rate of all workloads, if not their own")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.workloads:
        where = getattr(given, FOLDERS[name]) if name in FOLDERS else None
        if name in FOLDERS and where is None:
            parser.error(f"{name} needs --{FOLDERS[name].replace('_', '-')}")
        found = []
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as scratch:
                config = prepare(Path(scratch), name, where, lr=given.lr, rounds=given.rounds, seed=seed)
                found.append(compare(Path(scratch), config, given.rounds))
            print(json.dumps({"workload": name, "seed": seed, **found[-1]}), flush=True)
        for measure in found[0]:
            values = [one[measure] for one in found]
            print(f"{name}, {measure}: {min(values):.1e} to {max(values):.1e}", flush=True)


if __name__ == "__main__":
    main()
