"""What a forward pass needs besides its model: a loss, a precision, threads, and the wire across the cut."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor

from smofi.models.costing import Cast

__all__ = ["IGNORED", "Cast", "Loss", "Passes", "Wire", "direct"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""loss(outputs, targets): a number, the mean over the samples."""

IGNORED = -100
"""The target that torch's cross-entropy leaves out."""

Wire = Callable[[Tensor, str, int], Tensor]
"""wire(tensor, direction, client): what arrives of a tensor sent "up" to the server or "down" to a client."""


@dataclass(frozen=True)
class Passes:
    """How passes are computed: `cast` is their precision, `compiled` whether `torch.compile` compiles them, and
    `server_threads` how many threads a single server model computes with, if that is more than all else has. `draws`
    tells that layers other than dropout draw random numbers in training."""

    cast: Cast = nullcontext
    compiled: bool = False
    server_threads: int = 1
    draws: bool = False


def direct(tensor: Tensor, direction: str, client: int) -> Tensor:
    """The wire of a simulation: nothing happens to what crosses the cut."""
    return tensor
