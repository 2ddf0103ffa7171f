"""One server model with the first process, and clients with all of them: SFLV2 and MergeSFL shared by several workers.

    every process   forward of its own active clients        activations --sum-->   all
    the first       group after group: the server's pass     cut gradients --copy-->
    every process   backward of its own clients

Activations are exchanged by summing: each belongs to one process, and is nothing in every other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smofi.engine.cohort.chunk import Chunk
from smofi.engine.cohort.context import RoundContext
from smofi.engine.cohort.halves import ClientHalf, Sent, ServerHalf, client_cut_gradients
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.steps import ClientSteps, naming_clients
from smofi.engine.noise import ON_SERVER
from smofi.engine.processes.tree import NOTHING
from smofi.flat import blocks_of, shell


@dataclass(frozen=True)
class Crossing:
    """What crosses the cut for two samples: the activation and, in the U shape, the server's output."""

    activation: Tensor
    output: Tensor

    @classmethod
    def of(cls, context: RoundContext) -> Crossing:
        """Measured by sending two samples through: of a single one, the strides do not tell the order."""
        simulation, plan, setup = context.simulation, context.plan, context.setup
        first = torch.zeros(2, dtype=torch.int64).to(context.shares.device)
        samples, _ = simulation.clients[plan.clients[0]].batch(first)
        model, cut = shell(setup.template).eval(), plan.cuts[0]
        with torch.no_grad(), setup.cast(), context.kernels():
            activation = blocks_of(model, 0, cut.first)(samples)
            return cls(activation, blocks_of(model, cut.first, cut.last)(activation))


class OneServerStepper:
    """The ticks of a round whose server model the first process has. Every process knows the steps of all clients."""

    def __init__(self, context: RoundContext) -> None:
        self.context, self.setup, self.workers = context, context.setup, context.simulation.workers
        self.u_shaped = context.plan.cuts[0].u_shaped
        self.crossing = Crossing.of(context)

    def step(self, chunk: Chunk, groups: Sequence[Sequence[int]]) -> None:
        """One step of each group, in this order."""
        rows = [row for group in groups for row in group]
        with naming_clients([chunk.steps[row] for row in rows]), self.context.kernels():
            sent, crossed = {}, {}
            for row in rows:
                if row in chunk.members:
                    client = chunk.members[row].client_half
                    with naming_clients([client.steps]):
                        sent[row] = client.forward()
                        crossed[row] = self.setup.wire_or_direct(sent[row].activation, "up", client.client)
            sizes = {row: chunk.steps[row].batch_size for row in rows}
            arrived = self._gather(sizes, crossed, self.crossing.activation)
            start = 0
            for group in groups:
                size = sum(sizes[row] for row in group)
                self._visit(chunk, group, arrived[start : start + size], sent)
                start += size

    def _visit(self, chunk: Chunk, group: Sequence[int], arrived: Tensor, sent: dict[int, Sent]) -> None:
        """The server's pass on the activations of a group, and the way back through its clients."""
        steps = [chunk.steps[row] for row in group]
        sizes = [one.batch_size for one in steps]
        clients = {row: chunk.members[row].client_half for row in group if row in chunk.members}
        server = self._server(chunk)
        losses: dict[int, Tensor] = {}
        output = None
        if server:
            self.context.reseed(steps[0].seed + ON_SERVER)
            output = server.forward(arrived.split(sizes), [one.keys for one in steps])
        if self.u_shaped:
            losses = self._through_clients(dict(zip(group, sizes, strict=True)), clients, server, output)
        elif server:
            targets = [self._targets(sent.get(row), chunk.steps[row]) for row in group]
            losses = dict.fromkeys(group, server.loss(targets))
        gradient = self._send(server.cut_gradient() if server else None, sum(sizes), self.crossing.activation)
        for row, cut_gradient in zip(group, client_cut_gradients(gradient, sizes), strict=True):
            if row in clients:
                client = clients[row]
                client.backward(self.setup.wire_or_direct(cut_gradient, "down", client.client))
        self._update(list(clients.values()), server)
        for row, one in zip(group, steps, strict=True):
            one.advance(losses.get(row))

    def _through_clients(
        self, sizes: dict[int, int], clients: dict[int, ClientHalf], server: ServerHalf | None, output: Tensor | None
    ) -> dict[int, Tensor]:
        """U shape: down to the clients, each of which ends on its own labels, and back up."""
        wire, samples = self.setup.wire_or_direct, sum(sizes.values())
        outputs = self._send(output, samples, self.crossing.output).split(list(sizes.values()))
        losses, returned = {}, {}
        for row, own_output in zip(sizes, outputs, strict=True):
            if row in clients:
                client = clients[row]
                losses[row], gradient = client.finish(wire(own_output, "down", client.client), client.size / samples)
                returned[row] = wire(gradient, "up", client.client)
        gradient = self._gather(sizes, returned, self.crossing.output)
        if server:
            server.backward([gradient])
        return losses

    def _targets(self, sent: Sent | None, steps: ClientSteps) -> Tensor:
        """Those that a client of this process sent; another's are read here, and need not cross between processes."""
        return steps.targets() if sent is None or sent.targets is None else sent.targets

    def _server(self, chunk: Chunk) -> ServerHalf | None:
        """The server's half, in the process that has it."""
        return chunk.members[chunk.rows[0]].server_half if self.workers.rank == 0 else None

    def _update(self, clients: Sequence[ClientHalf], server: ServerHalf | None) -> None:
        halves: list[ClientHalf | ServerHalf] = [*clients, *([server] if server else [])]
        lr, local = self.context.plan.lr, self.setup.local
        if not local.model_wide_limits:
            for half in halves:
                half.update(lr)
            return
        sides: list[Segments] = [half.columns for half in halves]
        if sides:
            local.apply(sides, lr, across=self.workers.sum)
        else:  # a norm is over both sides, and this process has neither
            for _ in range(local.model_wide_limits):
                self.workers.sum(self.context.shares.new_full((1,), NOTHING))

    def _gather(self, sizes: dict[int, int], own: dict[int, Tensor], like: Tensor) -> Tensor:
        """What the clients send, one after the other; `sizes` are their batch sizes by row."""
        buffer, view = _buffer(sum(sizes.values()), like)
        for row, slot in zip(sizes, view.split(list(sizes.values())), strict=True):
            if row in own:
                slot.copy_(own[row])
        self.workers.sum(buffer)
        return view

    def _send(self, tensor: Tensor | None, samples: int, like: Tensor) -> Tensor:
        """What the first process has, sent to all."""
        buffer, view = _buffer(samples, like)
        if tensor is not None:
            view.copy_(tensor.detach())
        self.workers.copy(buffer)
        return view


def _buffer(samples: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Room for this many samples, with nothing in it: as they lie in memory, and as a layer sees them, which is in the
    order of dimensions that a client's own activations have."""
    strides = like.stride()
    order = sorted(range(like.dim()), key=lambda dim: (-strides[dim], dim))
    sizes = [samples, *like.shape[1:]]
    buffer = like.new_full([sizes[dim] for dim in order], NOTHING)
    return buffer, buffer.permute([order.index(dim) for dim in range(like.dim())])
