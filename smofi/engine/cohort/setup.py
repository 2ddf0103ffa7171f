"""What is fixed for a run, as one value: the same in every process that computes some of it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from smofi.engine.cohort.local import LocalStep
from smofi.engine.passes import Cast, Loss, Wire, direct
from smofi.flat import Layout
from smofi.method import Method
from smofi.models.dropout import dropouts
from smofi.optim import Optimizer


@dataclass(frozen=True)
class Setup:
    """The model's structure and layout, the method, the optimizer, the loss, and how passes are computed.

    `wire` is what everything that crosses the cut passes through; with one, the split is executed for real. `cast` is
    the precision of the passes, `compiled` whether `torch.compile` compiles them.
    """

    template: nn.Sequential
    layout: Layout
    method: Method
    optimizer: Optimizer
    loss: Loss
    wire: Wire | None = None
    cast: Cast = nullcontext
    compiled: bool = False

    @cached_property
    def local(self) -> LocalStep:
        """What happens with a gradient: the method's gradient slots, then the optimizer."""
        return LocalStep(self.method, self.optimizer)

    @cached_property
    def dropout(self) -> bool:
        """Whether the model has dropout, whose masks need keys."""
        return bool(dropouts(self.template))

    @property
    def wire_or_direct(self) -> Wire:
        """The wire, or one that changes nothing."""
        return self.wire or direct
