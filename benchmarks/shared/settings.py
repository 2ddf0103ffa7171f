"""What the benchmarks measure: models on digits, and on random images and texts of the usual sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import smofi
from smofi import data, models

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Setting:
    """A model, its clients, and the arguments of `smofi.train` beside them; and how many repetitions it is worth."""

    name: str
    model: nn.Sequential
    clients: list[Pair]
    arguments: dict[str, Any]
    test: Pair | None = None
    repetitions: int = 7

    def session(self, method: str, **more: Any) -> smofi.Session:
        """A run that is ready for its rounds, without test data unless it is given."""
        return smofi.prepare(self.model, self.clients, method=method, **{**self.arguments, **more})


FIRST_RUN = {"participation": 0.2, "local_epochs": 5, "batch_size": 8, "cut": 1}


def digits_cnn() -> Setting:
    model = models.build("cnn", seed=0, input_shape=(1, 8, 8), classes=10, width=16)
    return Setting("digits, cnn width 16, 8x8, batch 8", model, digits(), FIRST_RUN, digits_test())


def digits_resnet8() -> Setting:
    model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=8)
    return Setting("digits, resnet8 width 8, 8x8, batch 8", model, digits(), FIRST_RUN, digits_test())


def resnet8(clients: int = 10, steps: int = 2, batch: int = 32, width: int = 16) -> Setting:
    model = models.build("resnet8", seed=0, input_shape=(3, 32, 32), classes=10, width=width)
    name = f"resnet8 width {width}, 32x32, batch {batch}"
    return Setting(name, model, images(clients, batch * steps), everyone(batch))


def cnn(clients: int = 10, steps: int = 2, batch: int = 32, width: int = 16) -> Setting:
    model = models.build("cnn", seed=0, input_shape=(1, 28, 28), classes=10, width=width)
    name = f"cnn width {width}, 28x28, batch {batch}"
    return Setting(name, model, images(clients, batch * steps, (1, 28, 28)), everyone(batch))


def resnet18(clients: int = 2, steps: int = 2, batch: int = 32) -> Setting:
    model = models.build("resnet18", seed=0, input_shape=(3, 32, 32), classes=10, width=64)
    name = f"resnet18 width 64, 32x32, batch {batch}"
    return Setting(name, model, images(clients, batch * steps), everyone(batch), repetitions=3)


def transformer(clients: int = 4, steps: int = 2, batch: int = 16, width: int = 128) -> Setting:
    model = models.build("transformer", seed=0, input_shape=(80,), classes=80, width=width)
    name = f"transformer width {width}, 80 of 80 characters, batch {batch}"
    return Setting(name, model, texts(clients, batch * steps), everyone(batch), repetitions=3)


SETTINGS: dict[str, Callable[..., Setting]] = {
    "digits-cnn": digits_cnn,
    "digits-resnet8": digits_resnet8,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "transformer": transformer,
}


def settings() -> list[Setting]:
    """A model of medium size, and the one of the first run."""
    return [resnet8(), digits_resnet8()]


def everyone(batch_size: int) -> dict[str, Any]:
    """All clients take part, with one epoch each."""
    return {"participation": 1.0, "local_epochs": 1, "batch_size": batch_size, "cut": 1}


def images(clients: int, samples: int, shape: tuple[int, ...] = (3, 32, 32)) -> list[Pair]:
    """Random numbers of this shape in ten classes, `samples` for each client."""
    draw = torch.Generator().manual_seed(0)
    return [
        (torch.randn(samples, *shape, generator=draw), torch.randint(10, (samples,), generator=draw))
        for _ in range(clients)
    ]


def texts(clients: int, samples: int, length: int = 80, vocabulary: int = 80) -> list[Pair]:
    """Random characters and the one that follows, `samples` of them for each client."""
    draw = torch.Generator().manual_seed(0)
    return [
        (
            torch.randint(vocabulary, (samples, length), generator=draw),
            torch.randint(vocabulary, (samples,), generator=draw),
        )
        for _ in range(clients)
    ]


def digits() -> list[Pair]:
    """The training data of `smofi run`."""
    inputs, targets = data.load("digits").train.tensors()
    indices = data.partition(targets.numpy(), 50, "dirichlet(0.2, balance=False)", min_size=8, seed=0)
    return [(inputs[own], targets[own]) for own in indices]


def digits_test() -> Pair:
    """The test data of `smofi run`."""
    return data.load("digits").test.tensors()
