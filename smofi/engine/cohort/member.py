"""A client in a round: its batches, what is random in its steps, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from smofi.data.ahead import Ahead
from smofi.data.augment import Augment
from smofi.data.batches import batch_order
from smofi.data.samples import Samples, batches
from smofi.engine.cohort.local import Segment
from smofi.engine.cohort.split import Sides, Work
from smofi.engine.plan import RoundPlan
from smofi.models.dropout import step_keys
from smofi.seeds import generator


@dataclass(frozen=True)
class Hold:
    """What the process that computes a client's steps has of it: its row's place, the sides of the model that is bound
    to the row, and the columns on each side of the cut."""

    place: int
    part: Callable[[], Sides]
    parts: Callable[[], tuple[list[Segment], list[Segment]]]

    @cached_property
    def sides(self) -> Sides:
        """Made when they are first asked for: a model that runs whole needs none."""
        return self.part()

    @property
    def client_part(self) -> list[Segment]:
        return self.parts()[0]

    @property
    def server_part(self) -> list[Segment]:
        return self.parts()[1]

    @property
    def updates(self) -> tuple[float, ...]:
        """How many updates each of its segments has seen."""
        return tuple(segment.updates for part in self.parts() for segment in part)


@dataclass
class Member:
    """A client of the round; `hold` is None where another process computes its steps."""

    row: int
    client: int
    samples: Samples
    order: Tensor
    noise: list[int]
    dropout: bool
    augment: Augment | None = None
    varied: Tensor | None = None
    ahead: Ahead | None = None
    hold: Hold | None = None
    step: int = 0
    losses: list[Tensor] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        plan: RoundPlan,
        row: int,
        samples: Samples,
        device: torch.device,
        dropout: bool,
        augment: Augment | None,
        pool: Executor | None = None,
    ) -> Member:
        """Everything is drawn here, by (seed, round, client), so that no step draws anything.

        `pool` reads samples ahead, where they can be read ahead.
        """
        client, steps, size = plan.clients[row], plan.steps[row], plan.batch_sizes[row]
        keys = {"seed": plan.seed, "round": plan.round, "client": client}
        order = torch.from_numpy(batch_order(len(samples), size, steps, **keys)).to(device)
        return cls(
            row,
            client,
            samples,
            order,
            noise=generator(plan.seed, "noise", plan.round, client).integers(2**63, size=steps).tolist(),
            dropout=dropout,
            augment=augment,
            varied=augment.draw(steps, size, **keys) if augment else None,
            ahead=Ahead(samples, order, pool) if pool else None,
        )

    @property
    def finished(self) -> bool:
        return self.step == len(self.order)

    @property
    def batch_size(self) -> int:
        return self.order.shape[1]

    @property
    def keys(self) -> Tensor | None:
        """Dropout's keys for the next step."""
        device = self.order.device
        return step_keys(self.noise[self.step], self.batch_size, device) if self.dropout else None

    def targets(self) -> Tensor:
        """The targets of the next batch."""
        return self.samples.targets(self.order[self.step])

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next step."""
        inputs, targets = self.ahead.batch(self.step) if self.ahead else self.samples.batch(self.order[self.step])
        if self.augment and self.varied is not None:
            inputs = self.augment.apply(inputs, self.varied[self.step])
        return inputs, targets

    def next_work(self) -> Work:
        """The client's next step, to be executed on either side of the cut."""
        assert self.hold is not None
        return Work(self.client, self.hold.sides, *self.next_batch(), self.noise[self.step], self.keys)

    def advance(self, loss: Tensor | None) -> None:
        """A step is done; this was its loss, None if another process knows it."""
        self.step += 1
        if loss is not None:
            self.losses.append(loss)


def batches_of(members: Sequence[Member]) -> tuple[Tensor, Tensor, Tensor | None]:
    """The next batches of several clients, `[clients, batch, ...]`: inputs, targets and dropout's keys."""
    inputs, targets = batches([m.samples for m in members], [m.order[m.step] for m in members])
    augment = members[0].augment
    if augment:
        varied = torch.cat([m.varied[m.step] for m in members if m.varied is not None])
        inputs = augment.apply(inputs.flatten(0, 1), varied).unflatten(0, inputs.shape[:2])
    keys = [key for member in members if (key := member.keys) is not None]
    return inputs, targets, torch.stack(keys) if keys else None
