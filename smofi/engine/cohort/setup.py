"""What is fixed for a run, as one value: the same in every process that computes some of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import nn

from smofi.engine.cohort.local import LocalStep
from smofi.engine.passes import Cast, Loss, Passes, Wire, direct
from smofi.flat import Layout
from smofi.method import Method
from smofi.models.dropout import dropouts
from smofi.optim import Optimizer


@dataclass(frozen=True)
class Setup:
    """The model's structure and layout, the method, the optimizer, the loss, and how passes are computed.

    `wire` is what everything that crosses the cut passes through; with one, the split is executed for real.
    """

    template: nn.Sequential
    layout: Layout
    method: Method
    optimizer: Optimizer
    loss: Loss
    wire: Wire | None = None
    passes: Passes = field(default_factory=Passes)

    @cached_property
    def local(self) -> LocalStep:
        """What happens with a gradient: the method's gradient slots, then the optimizer."""
        return LocalStep(self.method, self.optimizer)

    @cached_property
    def sides_alike(self) -> bool:
        """Whether an update treats the columns of both sides alike, so that it can take them as one segment."""
        method = self.method
        apart = method.fuse or method.carry or method.where.one_server or self.local.limits or self.optimizer.counts
        return not apart

    @cached_property
    def dropout(self) -> bool:
        """Whether the model has dropout, whose masks need keys."""
        return bool(dropouts(self.template))

    @property
    def cast(self) -> Cast:
        """The precision of the passes."""
        return self.passes.cast

    @property
    def compiled(self) -> bool:
        """Whether `torch.compile` compiles the passes."""
        return self.passes.compiled

    @property
    def server_threads(self) -> int:
        """How many threads the server's pass may use: 1 for a method with a server model per client."""
        return self.passes.server_threads if self.method.where.one_server else 1

    @property
    def in_one_thread(self) -> Setup:
        """The same for trials, which come before workers are forked: a fork does not copy threads."""
        return replace(self, passes=replace(self.passes, server_threads=1))

    @property
    def wire_or_direct(self) -> Wire:
        """The wire, or one that changes nothing."""
        return self.wire or direct
