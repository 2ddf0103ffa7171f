"""What is trained: a preset, and the paper's methods with the parameters it tuned for that task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from smofi.config import Config
from smofi.config.presets import preset_text
from smofi.plain_yaml import parse_settings

CLOCK: Mapping[str, Any] = {"clock": "paper"}
"""All runs have it, so that one run of FedAvg serves every item."""


@dataclass(frozen=True)
class Tuned:
    """What the paper tuned for a task: `beta` of SMoFi's global momentum and, unless `avgm` says otherwise, of FedAvgM;
    `slow` SlowMo's learning rate and momentum; `mu` FedProx's penalty."""

    beta: float
    slow: tuple[float, float]
    mu: float = 0.01
    avgm: float | None = None


LIGHT = Tuned(0.3, (0.5, 0.4))
HEAVY = Tuned(0.5, (1, 0.6))


@dataclass(frozen=True, eq=False)
class Task:
    """A preset at a scale, with the parameters of its methods; `steps` is the fixed number of local steps.
    Results with the settings of `stand_in` count as well: where we do not have the data itself."""

    title: str
    preset: str
    scale: str | None
    tuned: Tuned
    steps: int
    changes: Mapping[str, Any] = field(default_factory=lambda: CLOCK)
    stand_in: Mapping[str, Any] = field(default_factory=dict)

    def config(self, given: Mapping[str, Any]) -> Config:
        """The preset with these settings."""
        return Config(**{**_preset(self.preset, self.scale), **given})

    @property
    def beta(self) -> float:
        """Of the global momentum."""
        return self.tuned.beta

    @property
    def fedavgm(self) -> str:
        return f"fedavgm(momentum={self.tuned.avgm or self.beta})"

    @property
    def smofi(self) -> str:
        return f"smofi(global_momentum={self.beta})"

    @property
    def five(self) -> dict[str, str]:
        """FedAvg and the four plugins of the paper's Table 1, by their names there."""
        lr, momentum = self.tuned.slow
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
        return {"FedAvg": "fedavg", "FedProx": f"fedprox(mu={self.tuned.mu})", "FedNAR": "fednar"}


@cache
def _preset(name: str, scale: str | None) -> Mapping[str, Any]:
    """The settings of a preset, read once: an item has dozens of runs."""
    return parse_settings(preset_text(name, scale), f"preset {name}")


CIFAR10 = Task("CIFAR-10", "cifar10", "full", LIGHT, steps=75)
CIFAR100 = Task("CIFAR-100", "cifar100", "full", HEAVY, steps=75)
TINY = Task("Tiny-ImageNet", "tiny-imagenet", "full", replace(HEAVY, mu=0.1), steps=40)
SHAKESPEARE = Task("Shakespeare", "shakespeare", "full", replace(HEAVY, avgm=0.7), steps=115, changes={})
SPEECH = Task("Google Speech", "speech-commands", "full", HEAVY, steps=15, changes={})
IMAGES = (CIFAR10, CIFAR100, TINY)

FASHION = Task("Fashion-MNIST", "fashion-mnist", "small", LIGHT, steps=29)
FASHION_HEAVY = replace(FASHION, tuned=HEAVY)
"""With what the paper tuned for CIFAR-100 and Tiny-ImageNet, as in its figures of optimizers and of models."""
FASHION_80 = Task(
    "Fashion-MNIST in 80 classes",
    "fashion-mnist",
    "small",
    HEAVY,
    steps=29,
    changes={**CLOCK, "data": "python:smofi.reproduce.turned:fashion_80"},
)
"""Stands for CIFAR-100 and Tiny-ImageNet, whose clients are of nearly one size."""
SMALL_CIFAR10 = Task("CIFAR-10", "cifar10", "small", LIGHT, steps=29)


def images(scale: str) -> tuple[Task, ...]:
    """The paper's three image data sets; at small scale Fashion-MNIST, with what the paper tuned for CIFAR-10.

    >>> [task.title for task in images("small")]
    ['Fashion-MNIST']
    """
    return IMAGES if scale == "paper" else (FASHION,)
