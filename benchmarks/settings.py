"""What the benchmarks measure: a middling model on random images, and the first run's digits."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smofi import data, models


@dataclass(frozen=True)
class Setting:
    """A model, its clients, and the arguments of `smofi.train` beside them."""

    name: str
    model: nn.Sequential
    clients: list[tuple[Tensor, Tensor]]
    arguments: dict[str, Any]


def settings() -> list[Setting]:
    """The two settings, made anew."""
    wide = models.build("resnet8", seed=0, input_shape=(3, 32, 32), classes=10, width=16)
    slim = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=8)
    all_take_part = {"participation": 1.0, "local_epochs": 1, "batch_size": 32, "cut": 1}
    first_run = {"participation": 0.2, "local_epochs": 5, "batch_size": 8, "cut": 1}
    return [
        Setting("resnet8 width 16, 32x32, batch 32", wide, images(clients=10, samples=64), all_take_part),
        Setting("digits, resnet8 width 8, 8x8, batch 8", slim, digits(), first_run),
    ]


def images(clients: int, samples: int) -> list[tuple[Tensor, Tensor]]:
    """Random 32x32 colour images, `samples` for each client."""
    draw = torch.Generator().manual_seed(0)
    return [
        (torch.randn(samples, 3, 32, 32, generator=draw), torch.randint(10, (samples,), generator=draw))
        for _ in range(clients)
    ]


def digits() -> list[tuple[Tensor, Tensor]]:
    """The data of `smofi run`."""
    inputs, targets = data.load("digits").train.tensors()
    parts = data.partition(targets.numpy(), 50, "dirichlet(0.2)", min_size=8, seed=0)
    return [(inputs[part], targets[part]) for part in parts]


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def repetitions_asked_for(description: str | None) -> int:
    """Read `--repetitions` from the command line, and go to one thread."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions: int = parser.parse_args().repetitions
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread on {os.cpu_count()} cores")
    return repetitions
