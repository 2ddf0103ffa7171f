"""A client's side of a round: its half, its columns and its samples, driven by what the server sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch

from smofi.data.augment import Augment
from smofi.data.samples import Samples
from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import GATHERED
from smofi.engine.cohort.room import Room
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steps import ClientSteps, naming_clients
from smofi.engine.cpu.kernels import convolutions
from smofi.engine.plan import RoundPlan
from smofi.engine.remote.columns import ClientColumns, moments_of
from smofi.engine.remote.messages import Activation, Begin, CutGradient, Finished, Output, Returned
from smofi.engine.state import GlobalState


@dataclass(eq=False)
class Device:
    """What a client has from round to round: the model's structure, and its own samples."""

    setup: Setup
    samples: Samples
    augment: Augment | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @cached_property
    def state(self) -> GlobalState:
        """Where rounds start from; only the client's columns are ever looked at."""
        setup = self.setup
        return GlobalState.of(setup.template, setup.layout, setup.method, setup.optimizer, self.device)

    @cached_property
    def room(self) -> Room:
        """The memory of its row, kept from round to round."""
        return Room(self.setup, self.state)

    def begin(self, message: Begin) -> DeviceRound:
        """A round begins."""
        return DeviceRound(self, message)


class DeviceRound:
    """One round of a client: `forward`; for every step `finish` in the U shape, `backward`, and `forward` again; at the
    end `finished`."""

    def __init__(self, device: Device, begin: Begin) -> None:
        self.device, self.message, self.setup = device, begin, device.setup
        self.columns = ClientColumns(self.setup.layout, begin.cut)
        self.columns.fill(device.state, begin.weights, begin.statistics, begin.moments, begin.updates)
        self.steps = ClientSteps(
            begin.plan, device.samples, device.device, self.setup.dropout, device.augment, None, GATHERED
        )
        device.room.open(1, 0, begin.cut)
        fused = bool(self.setup.method.fuse)  # the momentum of the server's columns is no business of this machine
        chunk = Chunk(device.room, _plan_of_one(begin), [[0]], {0: self.steps}, fused)
        self.half = chunk.members[0].client_half
        self.square: float | None = None

    @property
    def over(self) -> bool:
        """Whether all steps are done."""
        return self.steps.done == self.message.plan.steps

    def forward(self) -> Activation:
        """The next step, up to the cut."""
        with self._computing():
            sent = self.half.forward()
        return Activation(self.message.round, self.steps.done, sent.activation, sent.targets, self._told_once())

    def finish(self, message: Output) -> Returned:
        """U shape: the loss on the client's own labels."""
        with self._computing():
            loss, gradient = self.half.finish(message.output.to(self.device.device), message.share)
        if not bool(torch.isfinite(loss)):  # the gradient says it: only tensors can
            loss, gradient = torch.zeros_like(loss), torch.full_like(gradient, torch.nan)
        return Returned(message.round, message.step, float(loss), gradient)

    def backward(self, message: CutGradient) -> None:
        """The way back, and the update of the client's columns."""
        local, own, lr = self.setup.local, self.half.columns, self.message.lr
        with self._computing():
            self.half.backward(message.gradient.to(self.device.device))
        self.steps.advance(None)
        with torch.no_grad():
            if message.square is None:
                self.half.update(lr)
                return
            # |g|² = |g_client|² + |g_server|²
            square = local.limited(own)
            self.square = float(square)
            local.apply([own], lr, square=square + message.square)

    def finished(self) -> Finished:
        """What the client's columns have become."""
        none = self.device.state.weights.new_zeros(0)
        moments = moments_of(self.half.columns) if self.setup.method.carry else none
        weights, statistics = self.columns.of_row(self.device.room, 0)
        return Finished(self.message.round, weights, statistics, moments, self._told_once())

    def _told_once(self) -> float | None:
        """|g|² of the step before, which the server needs with the next message."""
        square, self.square = self.square, None
        return square

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with naming_clients([self.steps]), convolutions(self.message.onednn):
            yield


def _plan_of_one(begin: Begin) -> RoundPlan:
    """A round of this client alone, as rows are made from."""
    one = begin.plan
    steps, alone = [one.steps], [1.0]
    return RoundPlan(
        seed=one.seed,
        round=one.round,
        lr=begin.lr,
        clients=[one.client],
        batch_sizes=[one.batch_size],
        epoch_steps=steps,
        steps=steps,
        shares=alone,
        planned_steps=steps,
        planned_shares=alone,
        cuts=[begin.cut],
    )
