"""What crosses the cut, and what is expected of a client at every point of a round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smofi.cut import Cut
from smofi.engine.cohort.setup import Setup
from smofi.engine.plan import ClientPlan
from smofi.engine.remote.columns import ClientColumns
from smofi.engine.remote.links import Expected, Shape
from smofi.engine.remote.messages import Activation, Finished, Returned
from smofi.flat import blocks_of, shell


@dataclass(frozen=True)
class Task:
    """What the data has to be: one input, its type; one target, its type; and the number of classes, if there are."""

    input_shape: tuple[int, ...]
    input_dtype: torch.dtype
    target_shape: tuple[int, ...] = ()
    target_dtype: torch.dtype = torch.int64
    classes: int | None = None

    def inputs(self, samples: int, device: torch.device) -> Tensor:
        """A batch of zeros."""
        return torch.zeros(samples, *self.input_shape, dtype=self.input_dtype, device=device)


class Crossing:
    """The shapes of what crosses one cut, measured by sending zeros through the model."""

    def __init__(self, setup: Setup, cut: Cut, task: Task) -> None:
        self.cut, self.task, self.setup = cut, task, setup
        self.columns = ClientColumns(setup.layout, cut)
        device = next(iter(setup.template.parameters())).device
        model = shell(setup.template).eval()
        with torch.no_grad(), setup.cast():
            activation = blocks_of(model, 0, cut.first)(task.inputs(2, device))
            output = blocks_of(model, cut.first, cut.last)(activation)
        self.activation, self.output = (Shape(one.dtype, tuple(one.shape[1:])) for one in (activation, output))

    @cached_property
    def variances(self) -> Tensor:
        """Which of the client's running statistics are variances."""
        layout = self.setup.layout
        found = torch.zeros(layout.statistics_size, dtype=torch.bool)
        for place in layout.statistics:
            found[place.columns] = place.name.endswith("running_var")
        return self.columns.statistics_of(found)

    @property
    def squares(self) -> bool:
        """Whether each side tells the other |g|² of its own columns: a limit is on the norm of the whole model."""
        return bool(self.setup.local.model_wide_limits)

    @property
    def carried_blocks(self) -> int:
        """Of how many blocks the client gets the number of updates."""
        return len(self.columns.blocks) if self.setup.method.carry else 0

    def expects_activation(self, plan: ClientPlan, step: int, square: bool) -> Expected:
        """A step up to the cut."""
        tensors = {"activation": self.batch_of(self.activation, plan)}
        if not self.cut.u_shaped:
            targets = Shape(self.task.target_dtype, self.task.target_shape, self.task.classes)
            tensors["targets"] = self.batch_of(targets, plan)
        return Expected(Activation, plan.round, step, tensors, square)

    def expects_returned(self, plan: ClientPlan, step: int) -> Expected:
        """U shape: the gradient of the server's output."""
        return Expected(Returned, plan.round, step, {"gradient": self.batch_of(self.output, plan)})

    def expects_finished(self, plan: ClientPlan, square: bool) -> Expected:
        """The client's columns."""
        return Expected(Finished, plan.round, plan.steps, self.of_columns(), square)

    def of_columns(self) -> dict[str, Shape]:
        """The client's columns, as they travel before and after a round."""
        dtype, own = self.setup.layout.dtype, self.columns
        moments = (self.setup.optimizer.moments, own.size) if self.setup.method.carry else (0,)
        return {
            "weights": Shape(dtype, (own.size,)),
            "statistics": Shape(dtype, (own.statistics_size,)),
            "moments": Shape(dtype, moments),
        }

    def batch_of(self, one: Shape, plan: ClientPlan) -> Shape:
        """A client's batch of such samples."""
        return Shape(one.dtype, (plan.batch_size, *one.sizes), one.classes)
