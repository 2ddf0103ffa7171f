"""The two halves of a split client. Each has an autograd graph of its own; only what they return crosses the cut.

    ClientHalf   forward() -> Sent                                                   backward(cut gradient)
    ServerHalf              forward(activations) -> output    loss(targets)     cut_gradient()
    ClientHalf                                   finish(output) -> loss, gradient                     U shape: the loss
    ServerHalf                                               backward(gradients)                      is the client's

Neither knows the other, nor which other clients take part, nor where it runs: a simulation passes tensors from one to
the other through a wire, a deployment would through a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.local import Segments
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.cpu.threads import with_threads
from smofi.engine.noise import IN_BACK, give_keys, reseeder
from smofi.flat import blocks_of


@dataclass(frozen=True)
class Sent:
    """What a client sends at the cut: activations; their targets, None in the U shape, where they stay; and the keys
    of the samples' dropout, None for a model without any."""

    activation: Tensor
    targets: Tensor | None
    keys: Tensor | None


class ClientHalf:
    """A client's blocks, `front` before the cut and in the U shape `back` after the server's; their columns of one row,
    with the state of their optimizer; and the client's steps, which have its samples.
    """

    def __init__(
        self, setup: Setup, front: nn.Module, back: nn.Module | None, columns: Segments, steps: ClientSteps
    ) -> None:
        self.setup, self.front, self.back, self.columns, self.steps = setup, front, back, columns, steps
        self.reseed = reseeder(steps.device)

    @classmethod
    def of(cls, setup: Setup, model: nn.Sequential, cut: Cut, columns: Segments, steps: ClientSteps) -> ClientHalf:
        """From a whole model that is bound to a row."""
        back = blocks_of(model, cut.last, cut.blocks) if cut.u_shaped else None
        return cls(setup, blocks_of(model, 0, cut.first), back, columns, steps)

    @property
    def client(self) -> int:
        return self.steps.client

    @property
    def size(self) -> int:
        """The samples of a step."""
        return self.steps.batch_size

    def forward(self) -> Sent:
        """Begin the next step, up to the cut."""
        inputs, self.targets = self.steps.batch()
        self.keys = self.steps.keys
        self.reseed(self.steps.seed)
        give_keys(self.front, self.keys)
        with self.setup.cast():
            self.activation = self.front(inputs)
        return Sent(self.activation.detach(), None if self.back else self.targets, self.keys)

    def finish(self, output: Tensor, share: float = 1.0) -> tuple[Tensor, Tensor]:
        """U shape: end the forward pass on the client's own labels; its loss, and the gradient of the server's output.

        `share` is the client's share of the samples that the server merges.
        """
        assert self.back is not None
        self.reseed(self.steps.seed + IN_BACK)
        give_keys(self.back, self.keys)
        received = output.requires_grad_()
        with self.setup.cast():
            value = self.setup.loss(self.back(received.clone()), self.targets)
        value.backward()
        assert received.grad is not None
        # the server's gradient is sum_i (B_i / sum B) g_i
        return value.detach(), received.grad if share == 1 else received.grad * share

    def backward(self, cut_gradient: Tensor) -> None:
        """The gradient of the client's own columns is complete, and nothing of the step is kept."""
        activation = self.activation
        del self.activation, self.targets, self.keys
        if activation.requires_grad:
            activation.backward(cut_gradient)

    def update(self, lr: float) -> None:
        """The optimizer's step on the client's columns."""
        self.setup.local.apply([self.columns], lr)


class ServerHalf:
    """A server model: the server's blocks, their columns of a row and the state of their optimizer. Where momenta are
    fused, its columns continue from the fused one. A single one for all clients may compute with threads of its own.
    """

    def __init__(self, setup: Setup, blocks: nn.Module, columns: Segments) -> None:
        self.setup, self.blocks, self.columns = setup, blocks, columns

    @classmethod
    def of(cls, setup: Setup, model: nn.Sequential, cut: Cut, columns: Segments) -> ServerHalf:
        """From a whole model that is bound to a row."""
        return cls(setup, blocks_of(model, cut.first, cut.last), columns)

    def step(
        self, activations: Sequence[Tensor], targets: Sequence[Tensor], keys: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """A step on the batches of one client, or of several at once: the loss, and each client's cut gradient."""
        self.forward(activations, keys)
        return self.loss(targets), client_cut_gradients(self.cut_gradient(), [len(one) for one in activations])

    def forward(self, activations: Sequence[Tensor], keys: Sequence[Tensor | None]) -> Tensor:
        """The output for all activations, as one batch; `keys` are those of the clients' dropout."""
        self.arrived = join(activations).requires_grad_()
        dropout_keys = [key for key in keys if key is not None]
        give_keys(self.blocks, join(dropout_keys) if dropout_keys else None)
        with self.threads(), self.setup.cast():
            # a copy, as on another machine: a first layer may work in place
            self.output = self.blocks(self.arrived.clone())
        sent: Tensor = self.output.detach()
        return sent

    def loss(self, targets: Sequence[Tensor]) -> Tensor:
        """The mean over all samples; its gradients are computed when this returns."""
        with self.threads():
            with self.setup.cast():
                value = self.setup.loss(self.output, join(targets))
            value.backward()
        return value.detach()

    def backward(self, gradients: Sequence[Tensor]) -> None:
        """U shape: go on from the gradients of the output that the clients return."""
        with self.threads():
            self.output.backward(join(gradients))

    def cut_gradient(self) -> Tensor:
        """The gradient at the cut, of all activations; nothing else of the step is kept."""
        gradient = self.arrived.grad
        del self.arrived, self.output
        assert gradient is not None
        return gradient

    def update(self, lr: float) -> None:
        """The optimizer's step on the server's columns."""
        with self.threads():
            self.setup.local.apply([self.columns], lr)

    def threads(self) -> AbstractContextManager[None]:
        """As many as a single server model may use."""
        return with_threads(self.setup.server_threads)


def client_cut_gradients(gradient: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The cut gradient of each client of a merged batch, given their batch sizes.

    It is scaled by sum(B) / B_i, so that a client sees the gradient of the mean over its own samples.

    >>> [gradient.tolist() for gradient in client_cut_gradients(torch.tensor([1.0, 1.0, 1.0, 1.0]), [1, 3])]
    [[4.0], [1.3333333730697632, 1.3333333730697632, 1.3333333730697632]]
    """
    shares = [size / sum(sizes) for size in sizes]
    slices = zip(gradient.split(list(sizes)), shares, strict=True)
    return [own if share == 1 else own / share for own, share in slices]


def join(tensors: Sequence[Tensor]) -> Tensor:
    """Batches as one batch."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
