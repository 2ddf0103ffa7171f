"""A step once its gradients are computed: the method's gradient slots, then the optimizer, on one row or on several.

A large model's columns are gone over in pieces that stay in the processor's cache: everything that is to be done with a
piece is done before the next one is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from smofi.flat import Columns
from smofi.method import Limit, Method
from smofi.optim import Optimizer

IN_CACHE = 1 << 17
"""Numbers of one kind in a piece; some five kinds are in use at a time."""


@dataclass(frozen=True)
class Momentum:
    """A tensor per moment of the optimizer, each `[rows, columns]`.

    `prior` is what the moments continue from: themselves, or SMoFi's fused ones; then `total`, `[columns]`, is the sum
    that they are added to.
    """

    prior: tuple[Tensor, ...]
    moments: tuple[Tensor, ...]
    total: tuple[Tensor, ...] = ()

    def of(self, columns: slice) -> Momentum:
        """Some of its columns."""
        groups = self.prior, self.moments, self.total
        return Momentum(*(tuple(tensor[..., columns] for tensor in group) for group in groups))


@dataclass
class Segment:
    """Columns of consecutive rows that are updated together, `[rows, columns]`: views into weights, gradients, moments.

    `start` are the global weights of the round's start, `[columns]`. Of `counts`, those at `rows` are the numbers of
    updates that these rows have seen.
    """

    blocks: range
    columns: Columns
    weights: Tensor
    gradient: Tensor
    start: Tensor
    momentum: Momentum
    counts: list[float]
    rows: slice

    @property
    def updates(self) -> float:
        """How many updates its first row has seen."""
        first: int = self.rows.start
        return self.counts[first]

    def count(self) -> float:
        """One update more for each of its rows, which have seen equally many where the number matters."""
        self.counts[self.rows] = [count + 1 for count in self.counts[self.rows]]
        return self.updates

    def reset(self) -> None:
        """A fresh optimizer: zero momentum, no updates counted."""
        for moment in self.momentum.moments:
            moment.zero_()
        self.counts[self.rows] = [0.0] * (self.rows.stop - self.rows.start)

    @cached_property
    def pieces(self) -> list[Segment]:
        """The same columns, a few at a time."""
        rows, width = self.weights.shape
        if rows * width <= IN_CACHE:
            return [self]
        step = max(1, IN_CACHE // rows)
        return [self._piece(slice(low, low + step)) for low in range(0, width, step)]

    def _piece(self, columns: slice) -> Segment:
        weights, gradient, start = (tensor[..., columns] for tensor in (self.weights, self.gradient, self.start))
        return replace(self, weights=weights, gradient=gradient, start=start, momentum=self.momentum.of(columns))


Segments = Sequence[Segment]
"""One side of the cut: the client's columns (two runs in the U shape) or the server's."""

Across = Callable[[Tensor], Tensor]
"""Sums over processes, where a norm is over columns that several of them have."""


class LocalStep:
    """gradient -> pull -> decay -> limit -> optimizer, on the sides of a model whose gradients belong together."""

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

    @property
    def model_wide_limits(self) -> int:
        """How many limits are on a norm over the whole model."""
        return sum(limit.scope == "model" for limit in self.limits)

    def apply(self, sides: Sequence[Segments], lr: float, across: Across | None = None) -> None:
        """Change weights and moments in place, and leave the gradient zero."""
        segments = [segment for side in sides for segment in side]
        if self.limits:
            for segment in segments:
                self._add_pull_and_decay(segment)
        for limit in self.limits:
            if limit.scope == "part":
                for side in sides:
                    _clip(side, limit)
            else:
                _clip(segments, limit, across)
        for segment in segments:
            count = segment.count()
            for piece in segment.pieces:
                if not self.limits:
                    self._add_pull_and_decay(piece)
                if self.decoupled:
                    piece.weights.mul_(1 - lr * self.decoupled)
                momentum = piece.momentum
                self.optimizer.update(piece.weights, piece.gradient, momentum.prior, momentum.moments, lr, count)
                for total, moment in zip(momentum.total, momentum.moments, strict=False):
                    total += moment[0] if len(moment) == 1 else moment.sum(0)
                piece.gradient.zero_()

    def _add_pull_and_decay(self, piece: Segment) -> None:
        if self.pull:
            self.pull(piece.gradient, piece.weights, piece.start)
        if self.coupled:
            piece.gradient.add_(piece.weights, alpha=self.coupled)


def _clip(segments: Segments, limit: Limit, across: Across | None = None) -> None:
    # g *= min(1, A / |g|), the norm of each row
    norms = torch.stack([torch.linalg.vector_norm(s.gradient, dim=1) for s in segments]).norm(dim=0)
    if across:
        norms = across(norms.square()).sqrt()
    scale = (limit.max_norm / norms).clamp(max=1.0)
    for segment in segments:
        segment.gradient.mul_(scale[:, None])
