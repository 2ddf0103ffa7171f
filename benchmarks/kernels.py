"""What smofi does to make a model's own forward and backward pass faster, step by step, on one thread.

    as it comes      PyTorch's usual memory format and layers, glibc's usual memory management
    channels-last    images and weights in that format
    memory kept      what a step frees is kept for the next (smofi.engine.cpu.freed_memory)
    quick layers     the same layers with less work (smofi.engine.cpu.quicken): what a round computes with

Two fresh processes, one of which keeps its memory, take turns; a repetition times all four, each in turn the first.
Processor time, since other programs disturb it less. In a run the difference that keeping memory makes to training is
smaller where glibc, too, has seen larger blocks come and go, such as those of an evaluation: it then keeps more.

    python benchmarks/kernels.py --models cnn resnet8
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from shared.internals import convolutions, keep_freed_memory, quicken, suits_onednn
from shared.options import options
from shared.rows import Sheet
from torch.nn.functional import cross_entropy

from smofi import models


class Case(NamedTuple):
    """A model by its name in smofi, what it sees, how many steps are timed at once and how many samples evaluated."""

    model: str
    shape: tuple[int, ...]
    width: int
    batch: int
    steps: int
    evaluated: int = 500


class Way(NamedTuple):
    """How a step is computed."""

    memory_kept: bool
    channels_last: bool
    quick: bool


CASES = {
    "cnn": Case("cnn", (1, 28, 28), width=16, batch=32, steps=10),
    "resnet8": Case("resnet8", (3, 32, 32), width=16, batch=32, steps=2),
    "digits-cnn": Case("cnn", (1, 8, 8), width=16, batch=8, steps=100),
    "resnet18": Case("resnet18", (3, 32, 32), width=64, batch=32, steps=1, evaluated=100),
    "transformer": Case("transformer", (80,), width=128, batch=16, steps=1, evaluated=100),
}
WAYS = {
    "as it comes": Way(memory_kept=False, channels_last=False, quick=False),
    "channels-last": Way(memory_kept=False, channels_last=True, quick=False),
    "memory kept": Way(memory_kept=True, channels_last=True, quick=False),
    "quick layers": Way(memory_kept=True, channels_last=True, quick=True),
}


def begin(memory_kept: bool) -> None:
    """What a process does first."""
    torch.set_num_threads(1)
    if memory_kept:
        keep_freed_memory()


@cache
def work(case: Case, way: Way, training: bool) -> Callable[[], None]:
    """A training step, or the evaluation of some samples."""
    classes = 80 if len(case.shape) == 1 else 10
    model = models.build(case.model, seed=0, input_shape=case.shape, classes=classes, width=case.width)
    batch = case.batch if training else case.evaluated
    inputs = torch.randn(batch, *case.shape) if len(case.shape) == 3 else torch.randint(classes, (batch, *case.shape))
    targets = torch.randint(classes, (batch,))
    if way.channels_last and len(case.shape) == 3:
        inputs = inputs.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if way.quick:
        model = quicken(model)
    pixels = inputs[0, 0].numel() if len(case.shape) == 3 else torch.inf
    onednn = not way.channels_last or suits_onednn(model, batch, pixels)
    model.train(training)

    def run() -> None:
        model.zero_grad()
        with convolutions(onednn), torch.set_grad_enabled(training):
            loss = cross_entropy(model(inputs), targets)
        if training:
            loss.backward()

    return run


def milliseconds(case: Case, way: Way, training: bool) -> float:
    """The processor time of one step, or of one evaluation, after one that warms up."""
    run, steps = work(case, way, training), case.steps if training else 1
    run()
    started = time.thread_time()
    for _ in range(steps):
        run()
    return 1e3 * (time.thread_time() - started) / steps


def compare(case: Case, training: bool, repetitions: int) -> dict[str, list[float]]:
    """The milliseconds of each way, repetition by repetition."""
    taken: dict[str, list[float]] = {label: [] for label in WAYS}
    spawn, ways = multiprocessing.get_context("spawn"), [*WAYS.items()]
    with spawn.Pool(1, begin, [False]) as usual, spawn.Pool(1, begin, [True]) as keeping:
        for repetition in range(repetitions):
            first = repetition % len(ways)
            for label, way in ways[first:] + ways[:first]:
                pool = keeping if way.memory_kept else usual
                taken[label].append(pool.apply(milliseconds, (case, way, training)))
    return taken


def main() -> None:
    parser = options(__doc__, repetitions=9)
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=CASES)
    given = parser.parse_args()
    if not keep_freed_memory():
        raise SystemExit("the memory management of this system cannot be told to keep what is freed")
    sheet = Sheet(given.results)
    for name in given.models:
        case = CASES[name]
        for training in (True, False):
            sheet.begin(model=name, work=f"training on {case.batch}" if training else f"evaluation of {case.evaluated}")
            taken = compare(case, training, given.repetitions)
            for label, values in taken.items():
                speeds = [plain / value for plain, value in zip(taken["as it comes"], values, strict=True)]
                sheet.add("milliseconds", values, ".2f", way=label)
                sheet.add("times as fast", speeds, ".2f", way=label)


if __name__ == "__main__":
    main()
