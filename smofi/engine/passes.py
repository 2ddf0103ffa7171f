"""What a forward pass needs besides its model: a loss, a precision, and the wire across the cut."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from smofi.models.costs import Cast

__all__ = ["IGNORED", "Cast", "Loss", "Wire", "direct"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""loss(outputs, targets): a number, the mean over the samples."""

IGNORED = -100
"""The target that torch's cross-entropy leaves out."""

Wire = Callable[[Tensor, str, int], Tensor]
"""wire(tensor, direction, client): what arrives of a tensor sent "up" to the server or "down" to a client."""


def direct(tensor: Tensor, direction: str, client: int) -> Tensor:
    """The wire of a simulation: nothing happens to what crosses the cut."""
    return tensor
