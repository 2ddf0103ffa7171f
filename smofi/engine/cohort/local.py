"""A step once its gradients are computed: the method's gradient slots, then the optimizer, on one row or on several.

A large model's columns are gone over in pieces that stay in the processor's cache: everything that is to be done with a
piece is done before the next one is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import torch
from torch import Tensor

from smofi.flat import Columns
from smofi.method import Limit, Method
from smofi.optim import Optimizer

IN_CACHE = 1 << 17
"""Numbers of one kind in a piece; some five kinds are in use at a time."""


@dataclass
class Momentum:
    """A tensor per moment of the optimizer, each `[rows, columns]`; `prior` is what the moments continue from:
    themselves, or SMoFi's fused ones."""

    prior: tuple[Tensor, ...]
    moments: tuple[Tensor, ...]
    cut_up: list[Momentum] = field(default_factory=list, repr=False)

    def pieces(self, spans: Sequence[slice]) -> list[Momentum]:
        """The same, a few columns at a time; always the same few."""
        if not self.cut_up:
            for span in spans:
                prior, moments = (tuple(t[:, span] for t in group) for group in (self.prior, self.moments))
                self.cut_up.append(Momentum(prior, moments))
        return self.cut_up


@dataclass
class Segment:
    """Columns of consecutive rows that are updated together, `[rows, columns]`: views into weights, gradients, moments.

    `start` are the global weights of the round's start, `[columns]`. Of `counts`, those at `rows` are the numbers of
    updates that these rows have seen. Where momenta are fused, `momentum` changes from step to step.
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
    def spans(self) -> list[slice]:
        """Its columns, a few at a time."""
        rows, width = self.weights.shape
        step = max(1, IN_CACHE // rows)
        return [slice(low, low + step) for low in range(0, width, step)] or [slice(0, 0)]

    @cached_property
    def pieces(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Weights, gradient and start of every span."""
        if len(self.spans) == 1:
            return [(self.weights, self.gradient, self.start)]
        return [(self.weights[:, span], self.gradient[:, span], self.start[span]) for span in self.spans]

    @property
    def momenta(self) -> list[Momentum]:
        """The momentum of every span."""
        return [self.momentum] if len(self.spans) == 1 else self.momentum.pieces(self.spans)


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

    def limits_to(self, norm: float) -> bool:
        """Whether no gradient of a side keeps a norm larger than this, however large it is."""
        return any(limit.max_norm <= norm for limit in self.limits)

    def apply(
        self, sides: Sequence[Segments], lr: float, across: Across | None = None, *, square: Tensor | None = None
    ) -> None:
        """Change weights and moments in place, and leave the gradient zero. `square` is |g|² of the whole model, where
        `limited` was asked for that of each side before."""
        segments = [segment for side in sides for segment in side]
        limits = self.limits
        if square is not None:
            wide, *limits = limits[len(self._parts_first) :]
            _scale(sides, wide, square)
        elif limits:
            self._make_ready(segments)
        for limit in limits:
            if limit.scope == "part":
                for side in sides:
                    _clip([side], limit)
            else:
                _clip(sides, limit, across)
        for segment in segments:
            count = segment.count()
            for (weights, gradient, start), momentum in zip(segment.pieces, segment.momenta, strict=True):
                if not self.limits:
                    self._add_pull_and_decay(weights, gradient, start)
                if self.decoupled:
                    weights.mul_(1 - lr * self.decoupled)
                self.optimizer.update(weights, gradient, momentum.prior, momentum.moments, lr, count)
                gradient.zero_()

    def limited(self, side: Segments) -> Tensor:
        """|g|² of one side, as the limit on the whole model's norm sees it: with pull and decay, within the limits on
        parts that come first."""
        self._make_ready(side)
        for limit in self._parts_first:
            _clip([side], limit)
        return _square([side])

    @property
    def _parts_first(self) -> list[Limit]:
        """The limits on parts that come before that on the whole model."""
        return list(takewhile(lambda limit: limit.scope == "part", self.limits))

    def _make_ready(self, segments: Segments) -> None:
        for segment in segments:
            self._add_pull_and_decay(segment.weights, segment.gradient, segment.start)

    def _add_pull_and_decay(self, weights: Tensor, gradient: Tensor, start: Tensor) -> None:
        if self.pull:
            self.pull(gradient, weights, start)
        if self.coupled:
            gradient.add_(weights, alpha=self.coupled)


def _clip(sides: Sequence[Segments], limit: Limit, across: Across | None = None) -> None:
    # |g|² = |g_client|² + |g_server|², whoever has which side
    square = _square(sides)
    _scale(sides, limit, across(square) if across else square)


def _scale(sides: Sequence[Segments], limit: Limit, square: Tensor) -> None:
    # g *= min(1, A / |g|), the norm of each row
    scale = (limit.max_norm / square.sqrt()).clamp(max=1.0)
    for side in sides:
        for segment in side:
            segment.gradient.mul_(scale[:, None])


def _square(sides: Sequence[Segments]) -> Tensor:
    """|g|² of each row, side by side."""
    return _added(
        [_added([torch.linalg.vector_norm(s.gradient, dim=1).square() for s in side]) for side in sides if side]
    )


def _added(terms: Sequence[Tensor]) -> Tensor:
    """One after the other."""
    return sum(terms[1:], terms[0])
