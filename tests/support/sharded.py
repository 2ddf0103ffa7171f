"""Every method, family of models and optimizer with as many workers as it is started with; the first writes what came
out. With several, every other case computes its clients at once: those of even number with an even number of workers.

Run by tests/engine/processes/test_workers.py, under torchrun, alone, or forked into so many:

    python sharded.py OUTPUT [PROCESSES]

SHARDED_ONLY in the environment names a few cases, with spaces between.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import smofi
from smofi import models
from smofi.engine.processes.forked import ForkedWorkers
from smofi.engine.processes.workers import Workers, joined

CASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedprox(mu=0.1)": {"rounds": 3, "eval_every": 2},
    "fednar(max_norm=0.5)": {},
    "fedavgm(momentum=0.3)": {},
    "slowmo(lr=0.5, momentum=0.4, steps=3)": {},
    "fednag": {},
    'sflv1("step")': {},
    'sflv1("epoch")': {"local_epochs": 2},
    "sflv2": {},
    "mergesfl": {},
    "smofi": {"cut": "0-1"},
    "smofi(alpha=-1)": {"cut": (0, 1)},
    "fedprox(mu=0.1)+smofi": {"cut": [0, 1, 0, 1, 1, 0, 1]},
    "smofi(global_momentum=0)": {"optimizer": "sgd(lr=0.05, momentum=0.9, nesterov=True)"},
    "smofi(alpha=-0.5)": {"optimizer": "adam(lr=0.01)"},
    "smofi(alpha=-0.2)": {"optimizer": "adamw(lr=0.01, weight_decay=0.1)"},
    "fedavg+clip(max_norm=5)": {"participation": 0.3},  # two clients: of three processes, one has none
    "smofi(alpha=-0.3)": {"participation": 0.3},
    "clip(max_norm=0.2)+sflv2": {"participation": 0.3},
    "fednag+sflv2": {},
    "clip(max_norm=0.3)+sflv2": {"cut": (0, 1)},
    "fedprox(mu=0.1)+mergesfl(steps=4)": {"cut": (0, 1), "speeds": [1, 0.5, 0.25, 1, 2, 1, 0.6]},
}

FAMILIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mlp": ((6,), {"width": 5}),
    "cnn": ((1, 8, 8), {"width": 2}),
    "resnet8": ((1, 8, 8), {"width": 2}),
    "resnet18": ((1, 8, 8), {"width": 2, "norm": "group"}),
    "vgg11": ((1, 32, 32), {"width": 2}),
    "mobilenetv2": ((1, 16, 16), {"width": 2}),
    "densenet121": ((1, 8, 8), {"width": 2}),
    "transformer": ((5,), {"width": 4}),
}
"""Each with SMoFi; its input and how small it is."""


def model() -> nn.Sequential:
    """Convolutions with BatchNorm, dropout and a linear layer, in double precision."""
    torch.manual_seed(0)
    block = [nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()),
        nn.Sequential(*block),
        nn.Sequential(nn.Flatten(), nn.Linear(4 * 16, 3)),
    ).double()


def federation() -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """Seven clients of very different size, and test data for several batches."""
    draw = torch.Generator().manual_seed(1)

    def samples(count: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 1, 4, 4, generator=draw, dtype=torch.float64)
        return x, torch.randint(3, (count,), generator=draw)

    return [samples(size) for size in (4, 9, 21, 5, 13, 8, 30)], samples(1203)


def family(name: str) -> tuple[nn.Sequential, list[tuple[Tensor, Tensor]]]:
    """A model of this family and three clients for it."""
    shape, options = FAMILIES[name]
    draw = torch.Generator().manual_seed(0)

    def samples(count: int) -> tuple[Tensor, Tensor]:
        targets = torch.randint(3, (count,), generator=draw)
        if name == "transformer":
            return torch.randint(3, (count, *shape), generator=draw), targets
        return torch.randn(count, *shape, generator=draw, dtype=torch.float64), targets

    built = models.build(name, seed=0, input_shape=shape, classes=3, **options)
    return built.double(), [samples(count) for count in (4, 9, 5)]


def forked(size: int) -> ForkedWorkers:
    """As many processes as that, from here on."""
    workers = ForkedWorkers(size)
    workers.fork()
    return workers


def outcomes(workers: Workers) -> Iterator[tuple[str, smofi.Result]]:
    """Case by case: two rounds of the methods, or as many as it says, and one of the families."""
    clients, test = federation()
    wanted = os.environ.get("SHARDED_ONLY", "").split() or [*CASES, *FAMILIES]
    executors = itertools.cycle(
        ("loop",) if workers.size == 1 else ("vmap", "loop")[:: 1 if workers.size % 2 == 0 else -1]
    )
    how: dict[str, Any] = {"batch_size": 4, "local_epochs": 1, "workers": workers}
    for method, changes in ((name, changes) for name, changes in CASES.items() if name in wanted):
        settings = {"rounds": 2, "participation": 0.8, "seed": 3, "executor": next(executors), **how, **changes}
        metrics = ("top1", "macro_f1", "per_client")
        yield method, smofi.train(model(), clients, test, method=method, metrics=metrics, **settings)
    for name in (name for name in FAMILIES if name in wanted):
        built, few = family(name)
        yield name, smofi.train(built, few, few[0], rounds=1, participation=1.0, executor=next(executors), **how)


def main() -> None:
    """Write the final weights of every case and the numbers of its history."""
    torch.set_num_threads(1)
    workers = forked(int(sys.argv[2])) if len(sys.argv) > 2 else joined(torch.device("cpu"))
    found: dict[str, Tensor] = {}
    for name, result in outcomes(workers):
        state = result.model.state_dict()
        found[name] = torch.cat([tensor.flatten() for tensor in state.values() if tensor.is_floating_point()])
        if workers.rank == 0:
            evaluated = [record for record in result.history if record.evaluated]
            numbers = [(r.accuracy, r.loss, r.train_loss, *r.metrics.get("per_client", [])) for r in evaluated]
            found[f"{name} history"] = torch.tensor(numbers, dtype=torch.float64)
    if workers.rank == 0:
        save_file(found, sys.argv[1])


if __name__ == "__main__":
    main()
