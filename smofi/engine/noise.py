"""The random stream that layers such as dropout draw from, set per client and step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch


def reseeder(device: torch.device) -> Callable[[int], object]:
    """A quick way to seed the generator that layers on this device draw from.

    >>> reseed = reseeder(torch.device("cpu"))
    >>> _ = reseed(7); first = torch.rand(1)
    >>> _ = reseed(7); bool(torch.rand(1) == first)
    True
    """
    if device.type == "cpu":
        return torch.default_generator.manual_seed
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index].manual_seed
    return torch.manual_seed


def own_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Whatever is drawn inside, the caller's random state is afterwards as it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
