"""The split executed for real: the halves exchange activations and cut gradients, and nothing else.

    client i     forward --up-->                                  --up--> finish, on its own labels
    server                      forward, all activations --down-->                                   --> backward
    client i     <--down-- cut gradient                           (no U shape: the loss is the server's)

Everything that crosses the cut passes through one hook, `wire(tensor, direction, client)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Chunk, Member
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import ClientHalf, ServerHalf, client_cut_gradients
from smofi.engine.cohort.steps import naming_clients
from smofi.engine.noise import ON_SERVER
from smofi.engine.passes import Wire


class SplitStepper:
    """Group after group: a client alone, or several that share their server's batch."""

    def __init__(self, context: RoundContext) -> None:
        self.context = context

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group, as far as this process has its clients."""
        for group in groups:
            if members := [chunk.members[row] for row in group if row in chunk.members]:
                self.step_group(members)

    def step_group(self, members: Sequence[Member]) -> None:
        """One step of a group."""
        context, first = self.context, members[0]
        clients, server = [member.client_half for member in members], first.server_half
        with naming_clients([member.steps for member in members]), context.kernels():
            losses = split_step(clients, server, context.setup.wire_or_direct)
        for client, loss in zip(clients, losses, strict=True):
            client.steps.advance(loss)
        watching, lr = context.diagnostics, context.plan.lr
        with torch.no_grad():
            if watching:
                watching.gradient(context.simulation.room.gradients, [member.place for member in members])
            context.begin_update(first)
            if context.setup.local.model_wide_limits:  # a norm is over both sides of one client
                (alone,) = members
                context.setup.local.apply(alone.sides, lr)
            else:
                server.update(lr)
                for client in clients:
                    client.update(lr)
            context.end_update(first)


def split_step(clients: Sequence[ClientHalf], server: ServerHalf, wire: Wire) -> list[Tensor]:
    """Gradients of a group's step, merged on the server; returns each client's loss.

    The loss is the mean over all samples of the group; the cut gradients are scaled so that a client sees the gradient
    of the mean over its own samples.
    """
    sizes = [client.size for client in clients]
    sent = [client.forward() for client in clients]
    arrived = [wire(one.activation, "up", client.client) for one, client in zip(sent, clients, strict=True)]
    keys = [one.keys for one in sent]
    clients[0].reseed(clients[0].steps.seed + ON_SERVER)
    if targets := [one.targets for one in sent if one.targets is not None]:
        value, gradients = server.step(arrived, targets, keys)
        losses = [value] * len(clients)
    else:
        losses = _through_clients(clients, server, wire, server.forward(arrived, keys), sizes)
        gradients = client_cut_gradients(server.cut_gradient(), sizes)
    for client, gradient in zip(clients, gradients, strict=True):
        client.backward(wire(gradient, "down", client.client))
    return losses


def _through_clients(
    clients: Sequence[ClientHalf], server: ServerHalf, wire: Wire, output: Tensor, sizes: list[int]
) -> list[Tensor]:
    """U shape: down to the clients, each of which ends on its own labels, and back up."""
    losses, returned = [], []
    for client, own_output in zip(clients, output.split(sizes), strict=True):
        loss, gradient = client.finish(wire(own_output, "down", client.client), client.size / sum(sizes))
        losses.append(loss)
        returned.append(wire(gradient, "up", client.client))
    server.backward(returned)
    return losses
