"""The table of models. Every model is a sequence of blocks, so every model splits at every block.

The first block is the input block, the last the output block, those between are the core blocks a cut counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from smofi.errors import check_choice, check_count, refuse
from smofi.models.cnn import cnn
from smofi.models.resnet import resnet8
from smofi.models.shape import check_image_shape
from smofi.seeds import generator

__all__ = ["MODELS", "Entry", "build", "cnn", "resnet8"]


@dataclass(frozen=True)
class Entry:
    """One model of the table: `make(input_shape, classes, **options)`, and which options it knows."""

    description: str
    make: Callable[..., nn.Sequential]
    options: tuple[str, ...] = ()


def _cnn(input_shape: Sequence[int], classes: int, **options: Any) -> nn.Sequential:
    return cnn(classes, input_shape, **options)


def _resnet8(input_shape: Sequence[int], classes: int, **options: Any) -> nn.Sequential:
    channels, _, _ = check_image_shape(input_shape, smallest=8)
    return resnet8(classes, channels, **options)


MODELS: dict[str, Entry] = {
    "cnn": Entry("two convolutions and two linear layers, no normalisation; 2 core blocks", _cnn, ("width",)),
    "resnet8": Entry("residual network for small images, from 8x8 up; 3 core blocks", _resnet8, ("width", "norm")),
}


def build(
    name: str,
    *,
    seed: int,
    input_shape: Sequence[int],
    classes: int,
    width: int | None = None,
    norm: str | None = None,
) -> nn.Sequential:
    """A model of the table, its initial weights a function of the seed. Torch's own random state is left as it was.

    >>> len(build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, norm="group"))
    5
    """
    entry = MODELS[check_choice("model", name, MODELS)]
    check_count("seed", seed, low=0)
    options = {key: value for key, value in (("width", width), ("norm", norm)) if value is not None}
    for key, value in options.items():
        if key not in entry.options:
            refuse(key, value, f"nothing, for {name} has no such option")
    with torch.random.fork_rng(devices=[]):
        # Only the CPU's generator: torch.manual_seed would also reseed every GPU, which is not forked here.
        torch.default_generator.manual_seed(int(generator(seed, "model").integers(2**63)))
        return entry.make(input_shape, classes, **options)
