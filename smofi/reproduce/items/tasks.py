"""What is trained: a preset, and the paper's methods with the parameters it tuned for that task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CLOCK: Mapping[str, Any] = {"clock": "paper"}
"""All runs have it, so that one run of FedAvg serves every item."""


@dataclass(frozen=True, eq=False)
class Task:
    """A preset at a scale, with the parameters of its methods: `beta` of SMoFi's global momentum and, unless `avgm`
    says otherwise, of FedAvgM; `slow` SlowMo's learning rate and momentum; `steps` the fixed number of local steps;
    `mu` FedProx's penalty."""

    title: str
    preset: str
    scale: str | None
    beta: float
    slow: tuple[float, float]
    steps: int
    mu: float = 0.01
    avgm: float | None = None
    changes: Mapping[str, Any] = field(default_factory=lambda: CLOCK)

    @property
    def fedavgm(self) -> str:
        return f"fedavgm(momentum={self.avgm or self.beta})"

    @property
    def smofi(self) -> str:
        return f"smofi(global_momentum={self.beta})"

    @property
    def five(self) -> dict[str, str]:
        """FedAvg and the four plugins of the paper's Table 1, by their names there."""
        lr, momentum = self.slow
        return {
            "FedAvg": "fedavg",
            "FedAvgM": self.fedavgm,
            "SlowMo": f"slowmo(lr={lr:g}, momentum={momentum}, steps={self.steps})",
            "FedNAG": f"fednag(steps={self.steps})",
            "SMoFi": self.smofi,
        }

    @property
    def bases(self) -> dict[str, str]:
        """The three bases of Table 1."""
        return {"FedAvg": "fedavg", "FedProx": f"fedprox(mu={self.mu})", "FedNAR": "fednar"}


CIFAR10 = Task("CIFAR-10", "cifar10", "full", beta=0.3, slow=(0.5, 0.4), steps=75)
CIFAR100 = Task("CIFAR-100", "cifar100", "full", beta=0.5, slow=(1, 0.6), steps=75)
TINY = Task("Tiny-ImageNet", "tiny-imagenet", "full", beta=0.5, slow=(1, 0.6), steps=40, mu=0.1)
SHAKESPEARE = Task("Shakespeare", "shakespeare", "full", beta=0.5, slow=(1, 0.6), steps=115, avgm=0.7, changes={})
SPEECH = Task("Google Speech", "speech-commands", "full", beta=0.5, slow=(1, 0.6), steps=15, changes={})
IMAGES = (CIFAR10, CIFAR100, TINY)

FASHION = Task("Fashion-MNIST", "fashion-mnist", "small", beta=0.3, slow=(0.5, 0.4), steps=29)
SMALL_CIFAR10 = Task("CIFAR-10", "cifar10", "small", beta=0.3, slow=(0.5, 0.4), steps=29)


def images(scale: str) -> tuple[Task, ...]:
    """The paper's three image data sets; at small scale Fashion-MNIST, with what the paper tuned for CIFAR-10.

    >>> [task.title for task in images("small")]
    ['Fashion-MNIST']
    """
    return IMAGES if scale == "paper" else (FASHION,)
