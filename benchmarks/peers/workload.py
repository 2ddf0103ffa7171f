"""A prepared workload, read without smofi, and the training loop that a plain loop and Flower's clients share.

tensors.safetensors   train and test inputs, ready for the model, and their targets
initial.safetensors   the initial state_dict
plan.npz              cohorts [rounds, J]; steps [rounds, J]; orders [steps of all, batch], rows of the training data;
                      sizes [clients]; owners [samples]
workload.json         model and optimizer
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import models

AT_ONCE = 500
"""Samples in a batch of an evaluation."""


@dataclass(frozen=True)
class Share:
    """A client's share of a round: its number of samples, and the rows `[steps, batch]` of its batches."""

    client: int
    size: int
    order: Tensor


class Workload:
    """Everything that all contestants have in common."""

    def __init__(self, folder: Path, channels_last: bool = False, double: bool = False) -> None:
        self.folder, self.channels_last, self.double = folder, channels_last, double
        self.settings: dict[str, Any] = json.loads((folder / "workload.json").read_text())
        with np.load(folder / "plan.npz") as plan:
            self.cohorts, self.steps, self.sizes = plan["cohorts"], plan["steps"], plan["sizes"]
            self.orders = torch.from_numpy(plan["orders"])
        # Where the batches of each share of a round begin among all batches.
        self.starts = np.cumsum(self.steps).reshape(self.steps.shape) - self.steps
        self.tensors = load_file(folder / "tensors.safetensors")
        for name in ("train_inputs", "test_inputs"):
            if channels_last:
                self.tensors[name] = self.tensors[name].contiguous(memory_format=torch.channels_last)
            if double:
                self.tensors[name] = self.tensors[name].double()

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        return self.tensors["train_inputs"], self.tensors["train_targets"]

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        return self.tensors["test_inputs"], self.tensors["test_targets"]

    def model(self) -> nn.Sequential:
        """The initial model."""
        model = models.build(**self.settings["model"])
        model.load_state_dict(load_file(self.folder / "initial.safetensors"))
        model = model.double() if self.double else model
        return model.to(memory_format=torch.channels_last) if self.channels_last else model  # type: ignore[call-overload]

    def cohort(self, round: int) -> Iterator[Share]:
        """The shares of a round, counted from 0."""
        return (self.share(round, place) for place in range(self.cohorts.shape[1]))

    def share(self, round: int, place: int) -> Share:
        """The share of the client at this place in the round's cohort."""
        client, start = int(self.cohorts[round, place]), int(self.starts[round, place])
        return Share(client, int(self.sizes[client]), self.orders[start : start + int(self.steps[round, place])])


def train(model: nn.Module, work: Workload, order: Tensor) -> None:
    """A client's round: SGD with a fresh momentum, on these batches."""
    inputs, targets = work.train
    optimizer = torch.optim.SGD(model.parameters(), **work.settings["optimizer"])
    model.train()
    for rows in order:
        optimizer.zero_grad()
        cross_entropy(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()


@torch.inference_mode()
def accuracy(model: nn.Module, work: Workload) -> float:
    """The share of test samples that the model gets right."""
    model.eval()
    batches = zip(*(part.split(AT_ONCE) for part in work.test), strict=True)
    right = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in batches)
    return right / len(work.test[1])


@dataclass
class Report:
    """What a contestant says of itself, on one line of JSON. Times are absolute: the parent process knows when it
    started."""

    started: float = field(default_factory=time.time)
    ends: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def round(self, accuracy: float) -> None:
        """A round is over, evaluation included."""
        self.ends.append(time.time())
        self.accuracies.append(accuracy)

    def line(self, **more: Any) -> str:
        """Seconds and accuracy of each round, and the absolute time when the first one ended."""
        seconds = [end - start for start, end in zip([self.started, *self.ends], self.ends, strict=False)]
        first = self.ends[0] if self.ends else None
        return json.dumps({"seconds": seconds, "accuracies": self.accuracies, "first_round_at": first, **more})


def keep(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write the final weights."""
    save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, path)


def arguments(description: str | None) -> argparse.Namespace:
    """The command line that all contestants understand."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=Path, help="folder written by prepare.py")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--weights", type=Path, required=True, help="file for the final weights")
    parser.add_argument("--channels-last", action="store_true", help="images and weights in that memory format")
    return parser.parse_args()
