"""Whole rounds with the clients of a step computed at once (`vmap`), or as smofi decides (`auto`), beside the loop.

A round of the one is compared with the mean of the other's rounds just before and just after it, in one process on one
thread; short rounds are repeated and timed together.

    python benchmarks/executors.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from statistics import fmean, median

import torch
from shared.goals import Goal, at_least
from shared.internals import one_round
from shared.options import options
from shared.rows import Row, Sheet, cell, markdown, pick
from shared.settings import Setting, cnn, everyone, images, resnet8, transformer
from shared.timing import seconds

from smofi import models

LOOP, OTHERS = "loop", ("vmap", "auto")
SPEED = "times as fast as the loop"
METHODS = ("smofi", "fedavg")
CLIENTS = (5, 10, 20, 100)
LONG_ENOUGH = 0.2
"""Seconds that are timed at once: short rounds are repeated."""


def tiny(name: str, width: int, shape: tuple[int, ...], clients: int) -> Setting:
    """A model of a few thousand parameters on samples of 64 numbers, four batches of eight for each client."""
    model = models.build(name, seed=0, input_shape=shape, classes=10, width=width)
    return Setting(f"{name} width {width}, 64 numbers, batch 8", model, images(clients, 32, shape), everyone(8))


MODELS: dict[str, Callable[[int], Setting]] = {
    "mlp": partial(tiny, "mlp", 128, (64,)),
    "tiny-cnn": partial(tiny, "cnn", 16, (1, 8, 8)),
    "tiny-resnet8": partial(tiny, "resnet8", 8, (1, 8, 8)),
    "cnn": partial(cnn, steps=1),
    "resnet8": partial(resnet8, steps=1),
    "transformer": partial(transformer, steps=1, batch=8, width=32),
}


def measure(setting: Setting, method: str, repetitions: int, sheet: Sheet) -> None:
    """Add how many times as fast as the loop each of the others is."""
    rounds = {name: one_round(setting.session(method, executor=name)) for name in (LOOP, *OTHERS)}
    for work in rounds.values():
        work()  # warms up
    times = ceil(LONG_ENOUGH / seconds(rounds[LOOP]))

    def taken(name: str) -> float:
        return seconds(lambda: [rounds[name]() for _ in range(times)]) / times

    loops = [taken(LOOP)]
    speeds: dict[str, list[float]] = {name: [] for name in OTHERS}
    for _ in range(repetitions):
        for name in OTHERS:
            own = taken(name)
            loops.append(taken(LOOP))
            speeds[name].append(fmean(loops[-2:]) / own)
    labels: Row = {"method": method, "clients": len(setting.clients)}
    sheet.add("seconds", loops, executor=LOOP, **labels)
    for name, values in speeds.items():
        sheet.add(SPEED, values, ".2f", executor=name, **labels)


def table(rows: Sequence[Row]) -> str:
    """A line for each model and number of clients."""
    lines = []
    for row in pick(rows, "seconds", method=METHODS[0]):
        labels = {"model": row["model"], "clients": row["clients"]}
        cells = []
        for method in METHODS:
            (loop,) = pick(rows, "seconds", method=method, **labels)
            speeds = (cell(rows, SPEED, ".2f", method=method, executor=name, **labels) for name in OTHERS)
            cells += [f"{median(loop['values']):.3f}", *speeds]
        lines.append([*labels.values(), *cells])
    headings = [text for method in METHODS for text in (f"{method}: loop, s", *OTHERS)]
    return markdown(["model", "clients a round", *headings], lines)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Leaving the choice to smofi costs no time."""
    return [at_least("auto is nowhere below 0.9 times the speed of the loop", pick(rows, SPEED, executor="auto"), 0.9)]


def main() -> None:
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--clients", nargs="+", type=int, default=CLIENTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    for name in given.models:
        sheet.begin(model=MODELS[name](1).name)
        for count in given.clients:
            for method in METHODS:
                measure(MODELS[name](count), method, given.repetitions, sheet)
    print("\n" + table(sheet.rows))


if __name__ == "__main__":
    main()
