"""What is random inside a step: dropout's masks, by a key per sample, and the stream that any other layer draws from.

Both are set per (seed, round, client, step). A mask is a function of its sample's key and of its layer, so that it is
the same in the whole model, in one that is split, and in a merged batch; see `smofi.models.dropout`. Other layers draw
from a stream for each part of a split model, which is the same wherever that part is computed; so a model that has such
layers is always split.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from smofi.models.dropout import Dropout

ON_SERVER, IN_BACK = 1, 2
"""Added to a step's seed, for what the server's blocks draw, and in the U shape the client's blocks behind them."""


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


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that layers on this device draw from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def give_keys(module: nn.Module, keys: Tensor | None) -> None:
    """Set the keys of the batch that a model, or a part of one, is about to see; None if it has no dropout."""
    if keys is not None:
        for layer in module.modules():
            if isinstance(layer, Dropout):
                layer.keys = keys


def own_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restores the caller's random state afterwards, whatever is drawn inside."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
