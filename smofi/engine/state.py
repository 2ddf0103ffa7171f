"""What a run carries from round to round: all of it, so that saving it is saving the run."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from smofi.flat import Layout
from smofi.method import Method
from smofi.optim import Optimizer


@dataclass
class GlobalState:
    """The global weights `[P]` and statistics `[S]`, the global update's memory `[vectors, P]`, and, where a method
    carries it, the momentum `[K, P]` with the number of updates that each block's has seen `[blocks]`.

    Always changed in place: models and segments are views into these tensors.
    """

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
            carried_updates=torch.zeros(len(layout.blocks), dtype=torch.float64),
        )

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def load(self, other: GlobalState) -> None:
        """Become another state, in place."""
        for mine, theirs in zip(self.tensors().values(), other.tensors().values(), strict=True):
            mine.copy_(theirs)
