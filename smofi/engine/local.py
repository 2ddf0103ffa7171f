"""One client's step once its gradient is there: the method's gradient slots, then the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smofi.flat import Columns
from smofi.method import Limit, Method
from smofi.optim import Optimizer


@dataclass
class Segment:
    """Columns of one row that are updated together: views into rows, gradients, round-start weights and moments.

    `prior` is what the momentum continues from: its own `moments`, or SMoFi's fused ones.
    """

    blocks: range
    columns: Columns
    weights: Tensor
    gradient: Tensor
    start: Tensor
    prior: tuple[Tensor, ...]
    moments: tuple[Tensor, ...]
    updates: float = 0

    def reset(self) -> None:
        """A fresh optimizer: zero momentum, no updates counted."""
        for moment in self.moments:
            moment.zero_()
        self.updates = 0


Part = Sequence[Segment]
"""One side of the cut: the client's columns (two runs in the U shape) or the server's."""


class LocalStep:
    """gradient -> pull -> decay -> limit -> optimizer, on the parts of a model whose gradients belong together."""

    def __init__(self, method: Method, optimizer: Optimizer) -> None:
        self.pull = method.pull
        self.optimizer = optimizer
        coupled = 0.0 if optimizer.decoupled else optimizer.weight_decay
        self.decoupled = optimizer.weight_decay if optimizer.decoupled else 0.0
        self.limits = [method.limit] if method.limit else []
        if method.decay:
            coupled = optimizer.weight_decay if method.decay.rate is None else method.decay.rate
            self.decoupled = 0.0
            self.limits = [method.decay.limit, *self.limits]
        self.coupled = coupled

    def apply(self, parts: Sequence[Part], lr: float) -> None:
        """Change weights and moments in place."""
        segments = [segment for part in parts for segment in part]
        for segment in segments:
            if self.pull:
                self.pull(segment.gradient, segment.weights, segment.start)
            if self.coupled:
                segment.gradient.add_(segment.weights, alpha=self.coupled)
        for limit in self.limits:
            for scope in parts if limit.scope == "part" else [segments]:
                _clip(scope, limit)
        for segment in segments:
            if self.decoupled:
                segment.weights.mul_(1 - lr * self.decoupled)
            segment.updates += 1
            self.optimizer.update(
                segment.weights, segment.gradient, segment.prior, segment.moments, lr, segment.updates
            )


def _clip(segments: Part, limit: Limit) -> None:
    # g *= min(1, A / |g|)
    norm = torch.stack([torch.linalg.vector_norm(segment.gradient) for segment in segments]).norm()
    scale = (limit.max_norm / norm).clamp(max=1.0)
    for segment in segments:
        segment.gradient.mul_(scale)
