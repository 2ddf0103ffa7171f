"""Compare the readings of Dirichlet(0.2): sizes, steps, and the virtual time of a round beside the paper's Table 2.

    python benchmarks/partitions.py
    python benchmarks/partitions.py --seeds 0 1 2 --rounds 5 --picture docs/partitions.png

Nothing is trained and nothing read: the presets of full size on blank data, with as many samples of each class as the
real one. Clients are drawn anew with each seed. Times are in units of SMoFi's.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import torch
from shared.internals import Layout, arguments_of, class_counts, divergence, make_planner
from shared.options import parser_for, positive
from shared.report import COLOURS, PALETTE, Drawing
from shared.rows import markdown

from smofi.config import read_config
from smofi.data import TensorSamples, partition
from smofi.models import build

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READINGS = {
    "by class, balanced": "dirichlet(0.2)",
    "by class": "dirichlet(0.2, balance=False)",
    "by client": "dirichlet(0.2, by='client')",
    "by client, equal": "dirichlet(0.2, by='client', equal=True)",
}
TASKS = {"cifar10": (50_000, 10, 32, 75), "cifar100": (50_000, 100, 32, 75), "tiny-imagenet": (100_000, 200, 64, 40)}
"""Samples, classes, the side of an image, and the fixed number of steps."""

METHODS = {
    "SMoFi": "smofi",
    "SFLV1(epoch)": 'sflv1("epoch")',
    "SFLV2, step by step": 'sflv2(turns="step")',
    "MergeSFL, fastest gets B": "mergesfl(steps={})",
    "MergeSFL, slowest gets B": 'mergesfl(steps={}, reference="slowest")',
}
PAPER = {
    "SFLV1(epoch)": (0.80, 0.89, 0.93),
    "SFLV2, step by step": (1.00, 1.03, 1.18),
    "MergeSFL, slowest gets B": (0.40, 0.73, 0.90),
}
"""Hours a round in Table 2, divided by SMoFi's."""


def parts_of(task: str, how: str, seed: int) -> list[np.ndarray]:
    """The samples of each client of a preset."""
    config, (samples, classes, *_) = read_config(task), TASKS[task]
    return partition(np.arange(samples) % classes, config.clients, how, min_size=config.batch_size, seed=seed)


def hours(task: str, parts: list[np.ndarray], seed: int, rounds: int) -> dict[str, float]:
    """The mean hours of a round of each method."""
    config, (_, classes, side, steps) = read_config(task), TASKS[task]
    blank = TensorSamples.of(torch.zeros(1, 3, side, side), torch.zeros(1, dtype=torch.int64))
    clients = [blank[torch.zeros(len(part), dtype=torch.int64)] for part in parts]
    model = build(config.model, seed=0, input_shape=(3, side, side), classes=classes)
    found = {}
    for name, method in METHODS.items():
        asked = arguments_of(
            model=model,
            clients=clients,
            method=method.format(steps),
            cut=config.cut,
            optimizer=config.optimizer,
            seed=seed,
            participation=config.participation,
            local_epochs=config.local_epochs,
            batch_size=config.batch_size,
            clock="paper",
        )
        planner, now = make_planner(asked, Layout.of(model), clients), 0.0
        for round in range(rounds):
            time = planner.plan(round, now).time
            assert time
            now = time.ended
        found[name] = now / rounds / 3600
    return found


def draw(figure: Figure) -> None:
    """A column for each reading: steps of the clients, largest first; their class mixes; divergence by samples."""
    task = "cifar10"
    config, (samples, classes, *_) = read_config(task), TASKS[task]
    panels = figure.subplots(3, len(READINGS), sharey="row", height_ratios=[1, 1, 1.2])
    for (name, how), (top, middle, bottom) in zip(READINGS.items(), panels.T, strict=True):
        counts = class_counts(np.arange(samples) % classes, parts_of(task, how, 0), classes)
        counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
        sizes = counts.sum(axis=1)
        top.stairs(config.local_epochs * (sizes // config.batch_size), fill=True, color=COLOURS[4])
        top.set_title(f"{name}\nsizes: deviation {sizes.std() / sizes.mean():.2f} of the mean", fontsize=10, loc="left")
        edges = np.cumsum(counts / sizes[:, None], axis=1)
        for code, colour in enumerate(PALETTE[:classes]):
            middle.stairs(edges[:, code], baseline=edges[:, code - 1] if code else 0, fill=True, color=colour)
        middle.set_xlabel("clients, largest first")
        bottom.scatter(sizes, divergence(counts), s=14, color=COLOURS[0], alpha=0.55, linewidths=0)
        bottom.set_xlabel("samples")
        bottom.set_xlim(0, 2200)
        for axes in (top, middle, bottom):
            axes.spines[["top", "right"]].set_visible(False)
        for axes in (top, middle):
            axes.set_xlim(0, len(sizes))
            axes.set_xticks([])
    panels[0, 0].set_ylabel("steps a round")
    panels[1, 0].set_ylabel("class mix")
    panels[2, 0].set_ylabel("divergence, bits")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(10))
    parser.add_argument("--rounds", type=positive, default=20)
    parser.add_argument("--picture", type=Path, help="draw the readings on CIFAR-10's setting into this file instead")
    given = parser.parse_args()
    if given.picture:
        print(Drawing(draw).save(given.picture))
        return
    ratios = [name for name in METHODS if name != "SMoFi"]
    lines = []
    for number, task in enumerate(TASKS):
        paper = [f"{PAPER[name][number]:.2f}" if name in PAPER else "" for name in ratios]
        lines.append([task, "the paper", "", "", "", *paper])
        for reading, how in READINGS.items():
            sizes, found = [], []
            for seed in given.seeds:
                parts = parts_of(task, how, seed)
                sizes.append(np.array([len(part) for part in parts]))
                found.append(hours(task, parts, seed, given.rounds))
            mean = {name: fmean(one[name] for one in found) for name in METHODS}
            spread = f"{fmean(own.std() / own.mean() for own in sizes):.2f}"
            largest = f"{fmean(own.max() / own.mean() for own in sizes):.1f}"
            beside = [f"{mean[name] / mean['SMoFi']:.2f}" for name in ratios]
            lines.append([task, reading, spread, largest, f"{mean['SMoFi']:.3f}", *beside])
            print(*lines[-1], sep="  ", flush=True)
    heads = ["preset", "Dirichlet(0.2)", "sizes, std / mean", "largest / mean", "SMoFi's hours a round", *ratios]
    print(markdown(heads, lines))


if __name__ == "__main__":
    main()
