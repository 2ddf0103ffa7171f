"""Many clients at once beside the loop over them: one forward and backward pass of each client of a step.

Loop and `Many` are timed in turn, in one process on one thread; `Many` is compared with the mean of the loops just
before and just after it, with all clients at once and with a few of them at a time. Medians over the repetitions.

    python benchmarks/many.py
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from settings import repetitions_asked_for, seconds
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi import models
from smofi.engine.at_once.many import Many
from smofi.engine.cpu.kernels import convolutions, suits_onednn
from smofi.engine.noise import give_keys
from smofi.flat import Layout, shell
from smofi.models.dropout import dropouts, step_keys

A_FEW = 5


@dataclass
class Step:
    """A step of all clients: their rows and batches."""

    name: str
    clients: int
    batch: int
    shape: tuple[int, ...]
    width: int
    classes: int = 10
    model: nn.Sequential = field(init=False)

    def __post_init__(self) -> None:
        self.model = models.build(
            self.name, seed=0, input_shape=self.shape, classes=self.classes, width=self.width
        ).train()
        self.layout = Layout.of(self.model)
        weights, running = self.layout.pack(self.model)
        self.weights, self.statistics = weights.repeat(self.clients, 1), running.repeat(self.clients, 1)
        self.inputs = self._inputs()
        self.targets = torch.randint(self.classes, (self.clients, self.batch))
        self.keys = None
        if dropouts(self.model):
            self.keys = torch.stack([step_keys(client, self.batch) for client in range(self.clients)])

    def _inputs(self) -> Tensor:
        if self.name == "transformer":
            return torch.randint(self.classes, (self.clients, self.batch, *self.shape))
        inputs = torch.randn(self.clients, self.batch, *self.shape)
        if len(self.shape) != 3:
            return inputs
        return inputs.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)  # channels-last, as data is gathered

    def loop(self) -> Callable[[], None]:
        """Client by client, as the simulated cohort does it."""
        gradient, shells = torch.zeros(self.layout.size), [shell(self.model) for _ in range(self.clients)]
        for row, model in enumerate(shells):
            rows = self.weights[row], self.statistics[row], gradient
            self.layout.bind(model, *(tensor.__getitem__ for tensor in rows))
        pixels = self.inputs[0, 0, 0].numel() if len(self.shape) == 3 else float("inf")
        onednn = suits_onednn(self.model, self.batch, pixels)

        def run() -> None:
            with convolutions(onednn):
                for row, model in enumerate(shells):
                    gradient.zero_()
                    give_keys(model, None if self.keys is None else self.keys[row])
                    cross_entropy(model(self.inputs[row]), self.targets[row]).backward()

        return run

    def many(self, size: int) -> Callable[[], None]:
        """`size` clients at a time."""
        many, gradients = Many(self.model, self.layout, cross_entropy), torch.zeros_like(self.weights)

        def run() -> None:
            for start in range(0, self.clients, size):
                some = slice(start, start + size)
                rows = self.weights[some], self.statistics[some], gradients[some]
                keys = None if self.keys is None else self.keys[some]
                many.backward(*rows, self.inputs[some], self.targets[some], keys)

        return run


STEPS = [
    partial(Step, "mlp", 10, 8, (64,), 128),
    partial(Step, "mlp", 20, 8, (64,), 128),
    partial(Step, "cnn", 10, 8, (1, 8, 8), 16),
    partial(Step, "cnn", 20, 8, (1, 8, 8), 16),
    partial(Step, "resnet8", 10, 8, (1, 8, 8), 8),
    partial(Step, "resnet8", 20, 8, (1, 8, 8), 8),
    partial(Step, "cnn", 20, 32, (1, 28, 28), 16),
    partial(Step, "resnet8", 10, 32, (3, 32, 32), 16),
    partial(Step, "transformer", 10, 8, (80,), 32, 80),
]


def measure(step: Step, repetitions: int) -> None:
    """Print how many times as fast as the loop it is."""
    loop = step.loop()
    others = {"at once": step.many(step.clients), f"{A_FEW} at a time": step.many(A_FEW)}
    loops, ratios = [seconds(loop)], {name: [seconds(run)] for name, run in others.items()}
    for _ in range(repetitions):
        for name, run in others.items():
            loops.append(seconds(loop))
            taken = seconds(run)
            loops.append(seconds(loop))
            ratios[name].append(statistics.mean(loops[-2:]) / taken)
    shape = "x".join(map(str, step.shape))
    print(f"\n{step.name} width {step.width}, {shape}, batch {step.batch}, {step.clients} clients")
    print(f"  loop         {1e3 * statistics.median(loops[1:]):8.2f} ms a step of all clients")
    for name, (_, *values) in ratios.items():  # the first one warms up
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(
            f"  {name:<12} {statistics.median(values):.2f} times as fast ({spread}, {repetitions} repetitions)",
            flush=True,
        )


def main() -> None:
    repetitions = repetitions_asked_for(__doc__)
    torch.manual_seed(0)
    for make in STEPS:
        measure(make(), repetitions)


if __name__ == "__main__":
    main()
