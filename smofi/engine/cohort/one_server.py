"""One server model with the first process, and clients with all of them: SFLV2 and MergeSFL in a crew.

    every process   front of its own active clients          activations --sum-->   everyone
    the first       group after group: the server's pass     cut gradients --copy-->
    every process   back through its own clients

Activations are exchanged by summing: each is somebody's, and zero with everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.local import LocalStep, Part
from smofi.engine.cohort.member import Member
from smofi.engine.cohort.noise import give_keys
from smofi.engine.cohort.split import Cast, Loss, Sides, Wire, Work, backward_end, backward_front, forward_front
from smofi.engine.processes.crew import Crew


@dataclass(frozen=True)
class Crossing:
    """What crosses the cut for a single sample: the activation and, in the U shape, the server's output."""

    activation: Tensor
    output: Tensor

    @classmethod
    def of(cls, model: nn.Sequential, cut: Cut, sample: Tensor, cast: Cast) -> Crossing:
        """Found by sending one through."""
        sides = Sides.of(model.eval(), cut)
        with torch.no_grad(), cast():
            activation = sides.front(sample)
            return cls(activation, sides.server(activation))


class OneServer:
    """The ticks of a round whose server model the first process has."""

    def __init__(
        self,
        crew: Crew,
        local: LocalStep,
        loss: Loss,
        wire: Wire,
        reseed: Callable[[int], object],
        cast: Cast,
        crossing: Crossing,
        u_shaped: bool,
        like: Tensor,
        blaming: Callable[[list[Member]], AbstractContextManager[None]],
    ) -> None:
        self.crew, self.local, self.loss, self.wire, self.reseed, self.cast = crew, local, loss, wire, reseed, cast
        self.crossing, self.u_shaped, self.like, self.blaming = crossing, u_shaped, like, blaming

    def step(self, groups: Sequence[Sequence[Member]], server: tuple[nn.Module, Part], lr: float) -> None:
        """One step of each group, in this order; `server` is the first process's model and its columns."""
        everyone = [member for group in groups for member in group]
        works, fronts, sent = {}, {}, {}
        for member in everyone:
            if member.hold:
                with self.blaming([member]):
                    work = works[member.row] = member.next_work()
                    front = fronts[member.row] = forward_front(work, self.reseed, self.cast)
                    sent[member.row] = self.wire(front.detach(), "up", work.client)
        arrived = self._gather(everyone, sent, self.crossing.activation)
        start = 0
        for group in groups:
            size = sum(member.batch_size for member in group)
            self._visit(group, arrived[start : start + size], works, fronts, server, lr)
            start += size

    def _visit(
        self,
        group: Sequence[Member],
        arrived: Tensor,
        works: dict[int, Work],
        fronts: dict[int, Tensor],
        server: tuple[nn.Module, Part],
        lr: float,
    ) -> None:
        sizes = [member.batch_size for member in group]
        losses: dict[int, Tensor] = {}
        merged, outputs = arrived.requires_grad_(), None
        if self.crew.rank == 0:
            keys = [key for member in group if (key := member.keys) is not None]
            self.reseed(group[0].noise[group[0].step])
            give_keys(server[0], torch.cat(keys) if keys else None)
            with self.cast():
                outputs = server[0](merged.clone())
        if self.u_shaped:
            losses = self._through_clients(group, outputs, works)
        elif outputs is not None:
            with self.cast():
                targets = [works[m.row].targets if m.row in works else m.targets() for m in group]
                value = self.loss(outputs, torch.cat(targets))
            value.backward()
            losses = {member.row: value.detach() for member in group}
        gradient = self._send(merged.grad, sum(sizes), self.crossing.activation)
        for member, part, size in zip(group, gradient.split(sizes), sizes, strict=True):
            if member.hold:
                backward_front(works[member.row], fronts[member.row], part, size / sum(sizes), self.wire)
                if not self.local.spanning:
                    self.local.apply([member.hold.client_part], lr)
        self._update(group, server[1], lr)
        for member in group:
            member.advance(losses.get(member.row))

    def _through_clients(
        self, group: Sequence[Member], outputs: Tensor | None, works: dict[int, Work]
    ) -> dict[int, Tensor]:
        """U shape: down to the clients, each of which ends on its own labels, and back up."""
        sizes = [member.batch_size for member in group]
        parts = self._send(outputs, sum(sizes), self.crossing.output).split(sizes)
        losses, returned = {}, {}
        for member, part, size in zip(group, parts, sizes, strict=True):
            if member.hold:
                ending = (self.loss, self.wire, self.cast)
                losses[member.row], returned[member.row] = backward_end(
                    works[member.row], part, size / sum(sizes), *ending
                )
        gradient = self._gather(group, returned, self.crossing.output)
        if outputs is not None:
            outputs.backward(gradient)
        return losses

    def _update(self, group: Sequence[Member], server: Part, lr: float) -> None:
        first = self.crew.rank == 0
        if not self.local.spanning:
            if first:
                self.local.apply([server], lr)
            return
        parts: list[Part] = [member.hold.client_part for member in group if member.hold]
        parts += [server] if first else []
        if parts:
            self.local.apply(parts, lr, across=self.crew.sum)
        else:  # a norm is over both sides, and this process has neither
            for _ in range(self.local.spanning):
                self.crew.sum(self.like.new_zeros(1))

    def _gather(self, members: Sequence[Member], own: dict[int, Tensor], like: Tensor) -> Tensor:
        """What the clients send, one after the other."""
        sizes = [member.batch_size for member in members]
        room, view = _room(sum(sizes), like)
        for member, part in zip(members, view.split(sizes), strict=True):
            if member.row in own:
                part.copy_(own[member.row])
        self.crew.sum(room)
        return view

    def _send(self, tensor: Tensor | None, samples: int, like: Tensor) -> Tensor:
        """What the first process has, to everyone."""
        room, view = _room(samples, like)
        if tensor is not None:
            view.copy_(tensor.detach())
        self.crew.copy(room)
        return view


def _room(samples: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Zeros for so many samples, as they lie in memory, and as a layer sees them: images are channels-last."""
    if like.dim() != 4:
        room = like.new_zeros(samples, *like.shape[1:])
        return room, room
    _, channels, height, width = like.shape
    room = like.new_zeros(samples, height, width, channels)
    return room, room.permute(0, 3, 1, 2)
