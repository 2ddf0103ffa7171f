"""Many clients at once beside the loop over them: one forward and backward pass of each client of a step.

Loop and `ClientsAtOnce` are timed in turn, in one process on one thread; `ClientsAtOnce` is compared with the mean of
the loops just before and just after it, with all clients at once and with five at a time.

    python benchmarks/many.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import torch
from shared.internals import ClientsAtOnce, Layout, convolutions, dropouts, give_keys, shell, suits_onednn
from shared.options import options
from shared.rows import Sheet
from shared.timing import seconds
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi import models

GROUP = 5


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
            self.keys = torch.stack([models.step_keys(client, self.batch) for client in range(self.clients)])

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

    def at_once(self, size: int) -> Callable[[], None]:
        """`size` clients at a time."""
        clients, gradients = ClientsAtOnce(self.model, self.layout, cross_entropy), torch.zeros_like(self.weights)

        def run() -> None:
            for start in range(0, self.clients, size):
                some = slice(start, start + size)
                rows = self.weights[some], self.statistics[some], gradients[some]
                keys = None if self.keys is None else self.keys[some]
                clients.backward(*rows, self.inputs[some], self.targets[some], keys)

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


def measure(step: Step, repetitions: int, sheet: Sheet) -> None:
    """Add how many times as fast as the loop it is."""
    shape = "x".join(map(str, step.shape))
    sheet.begin(model=f"{step.name} width {step.width}, {shape}, batch {step.batch}", clients=step.clients)
    loop = step.loop()
    others = {"at once": step.at_once(step.clients), f"{GROUP} at a time": step.at_once(GROUP)}
    loops, speeds = [seconds(loop)], {name: [seconds(run)] for name, run in others.items()}
    for _ in range(repetitions):
        for name, run in others.items():
            loops.append(seconds(loop))
            taken = seconds(run)
            loops.append(seconds(loop))
            speeds[name].append(fmean(loops[-2:]) / taken)
    sheet.add("milliseconds", [1e3 * taken for taken in loops[1:]], ".2f", way="loop")
    for name, (_, *values) in speeds.items():  # the first one warms up
        sheet.add("times as fast", values, ".2f", way=name)


def main() -> None:
    given = options(__doc__, repetitions=7).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sheet = Sheet(given.results)
    for make in STEPS:
        measure(make(), given.repetitions, sheet)


if __name__ == "__main__":
    main()
