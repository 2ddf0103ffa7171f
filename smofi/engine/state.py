"""What a run carries from round to round: all of it, so that saving it is saving the run."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smofi.flat import Layout
from smofi.method import Method
from smofi.optim import Optimizer


@dataclass
class GlobalState:
    """The global weights `[P]` and statistics `[S]`, the global update's memory `[vectors, P]`, and, where a method
    carries it, the momentum `[K, P]` with the number of updates it has seen on the client and on the server `[2]`."""

    weights: Tensor
    statistics: Tensor
    memory: Tensor
    carried: Tensor
    carried_updates: Tensor

    @classmethod
    def of(
        cls, model: nn.Module, layout: Layout, method: Method, optimizer: Optimizer, device: torch.device
    ) -> GlobalState:
        """The state before the first round."""
        weights, statistics = layout.pack(model, device)
        carried = optimizer.moments if method.carry else 0
        return cls(
            weights,
            statistics,
            memory=weights.new_zeros(method.outer.vectors if method.outer else 0, layout.size),
            carried=weights.new_zeros(carried, layout.size),
            carried_updates=torch.zeros(2, dtype=torch.float64),
        )
