"""A simulated run: what is fixed for it, the clients' samples, and the processes that share the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from smofi.data.augment import Augment
from smofi.data.samples import Samples
from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.padding import NONE
from smofi.engine.cohort.execution import Execution
from smofi.engine.cohort.room import Room
from smofi.engine.cohort.setup import Setup
from smofi.engine.passes import Loss
from smofi.engine.processes.workers import OneWorker, Workers
from smofi.engine.state import GlobalState


@dataclass(frozen=True)
class Simulation:
    """Everything that a round is computed from but its plan. A trial is a simulation of its own, made by
    `dataclasses.replace` and dropped afterwards: it has its own room, and leaves nothing behind.
    """

    setup: Setup
    state: GlobalState
    clients: Sequence[Samples]
    augment: Augment | None = None
    workers: Workers = field(default_factory=OneWorker)
    execution: Execution = field(default_factory=Execution)
    diagnose: bool = False

    @property
    def side_by_side(self) -> bool:
        """Whether a round's clients must advance step by step beside each other, each in a row of its own."""
        return self.setup.method.coupled or self.diagnose

    @property
    def shares_server(self) -> bool:
        """Whether the first process has the server model of clients that others compute."""
        return self.setup.method.where.one_server and self.workers.size > 1

    @cached_property
    def room(self) -> Room:
        """The memory of its rows, kept from round to round."""
        return Room(self.setup, self.state)

    def give_back(self) -> None:
        """No round follows: the memory of the rows is for another run."""
        self.__dict__.pop("room", None)

    @cached_property
    def loss_of(self) -> Callable[..., Tensor]:
        """A model's loss on a batch."""
        return torch.compile(_loss_of) if self.setup.compiled else _loss_of

    @cached_property
    def clients_at_once(self) -> ClientsAtOnce:
        """The gradients of many clients at once."""
        setup = self.setup
        padding = self.execution.padding or NONE
        return ClientsAtOnce(setup.template, setup.layout, setup.loss, setup.cast, padding)


def _loss_of(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensor:
    return loss(model(inputs), targets)
