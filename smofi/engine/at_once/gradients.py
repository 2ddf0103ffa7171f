"""The gradients of many clients at once: one forward and one backward pass over the rows of all of them.

    weights     [C, P]  --views-->  the parameters of C clients  --vmap(model, loss)-->  losses [C]
    gradients   [C, P]  <--copied--  d(sum of losses) / d(parameters): no client's loss depends on another's row

The derivative is taken outside of vmap, so that only the forward pass goes through its rules. A padding adds rows
whose results are not used, where a client's last bits would depend on how many others share the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from smofi.engine.at_once.layers import merge_layers, merge_loss
from smofi.engine.at_once.padding import NONE, Padding, repeat_last
from smofi.engine.at_once.private import copy_all, internals
from smofi.engine.cpu.kernels import convolutions
from smofi.engine.passes import Cast, Loss
from smofi.flat import Layout, Place, shell
from smofi.models.dropout import Dropout


class ClientsAtOnce:
    """A model, of which `template` is the structure, for rows of any number of clients.

    >>> model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(0))
    >>> many = ClientsAtOnce(model, Layout.of(model), nn.functional.mse_loss)
    >>> weights, gradients = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.empty(2, 2)
    >>> inputs, targets = torch.tensor([[[3.0, 4.0]], [[3.0, 4.0]]]), torch.tensor([[1.0], [1.0]])
    >>> many.backward(weights, torch.empty(2, 0), gradients, inputs, targets)
    tensor([ 4., 49.])
    >>> gradients.tolist()  # 2 (w x - y) x
    [[12.0, 16.0], [42.0, 56.0]]
    """

    def __init__(
        self,
        template: nn.Sequential,
        layout: Layout,
        loss: Loss,
        cast: Cast = nullcontext,
        padding: Padding = NONE,
    ) -> None:
        self.inside, self.padding = internals(), padding
        self.layout, self.loss, self.cast = layout, merge_loss(loss), cast
        self.model = shell(template).train()
        self.onednn = merge_layers(self.model)
        self.dropouts = [module for module in self.model.modules() if isinstance(module, Dropout)]
        self.slots = [self._slot(place) for place in (*layout.parameters, *layout.statistics)]

    def backward(
        self,
        weights: Tensor,
        statistics: Tensor,
        gradients: Tensor,
        inputs: Tensor,
        targets: Tensor,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Write the gradients `[C, P]` and change the statistics `[C, S]` of these clients; returns their losses `[C]`.

        Rows, inputs and targets `[C, B, ...]` and dropout's keys `[C, B]` are of the clients that take this step, and
        of no others. Rows may be views: with the clients sorted by their number of steps, the most first, those still
        active are `rows[:active]`, and nothing is copied. A slice of the clients at a time takes less memory.
        """
        places, clients = self.layout.parameters, len(weights)
        width = self.padding.width(clients)
        inputs, targets = repeat_last(inputs, width), repeat_last(targets, width)
        keys = None if keys is None else repeat_last(keys, width)
        parameters = [leaf.requires_grad_() for leaf in _tensors(places, repeat_last(weights.detach(), width))]
        # layers see the clients' channels as one run of channels
        running = [rows.contiguous() for rows in _tensors(self.layout.statistics, repeat_last(statistics, width))]
        with convolutions(self.onednn):
            with self.cast():
                losses = self._losses([*parameters, *running], inputs, targets, keys)
            computed = torch.autograd.grad(losses, parameters, torch.ones_like(losses), materialize_grads=True)
        with torch.no_grad():
            copy_all(_tensors(places, gradients), _first(clients, computed))
            copy_all(_tensors(self.layout.statistics, statistics), _first(clients, running))
        return losses.detach()[:clients]

    def _losses(self, tensors: Sequence[Tensor], inputs: Tensor, targets: Tensor, keys: Tensor | None) -> Tensor:
        def forward(inputs: Tensor, targets: Tensor, keys: Tensor | None) -> Tensor:
            level = self.inside.level()
            assert level is not None
            # As arguments of vmap they would be wrapped in the same way, but more slowly.
            for (owner, name), tensor in zip(self.slots, tensors, strict=True):
                owner[name] = self.inside.wrap(tensor, 0, level)
            for dropout in self.dropouts:
                dropout.keys = keys
            return self.loss(self.model(inputs), targets)

        of_clients = (0, 0, None if keys is None else 0)
        try:
            losses: Tensor = vmap(forward, of_clients, randomness="error")(inputs, targets, keys)
        finally:
            for owner, name in self.slots:
                owner[name] = None  # so that no tensors are kept alive
            for dropout in self.dropouts:
                dropout.keys = None
        return losses

    def _slot(self, place: Place) -> tuple[dict[str, Any], str]:
        """Where the model looks for this tensor."""
        owner, _, name = place.name.rpartition(".")
        module = self.model.get_submodule(owner)
        return (module._parameters if name in module._parameters else module._buffers), name


def _first(clients: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Without the rows that only fill up a pass."""
    return tensors if not tensors or len(tensors[0]) == clients else [tensor[:clients] for tensor in tensors]


def _tensors(places: Sequence[Place], rows: Tensor) -> list[Tensor]:
    """Views of all rows `[C, columns]` at these places, `[C, ...]`."""
    pieces = rows.split([place.shape.numel() for place in places], dim=1)
    return [_view(place, piece) for place, piece in zip(places, pieces, strict=True)]


def _view(place: Place, columns: Tensor) -> Tensor:
    if place.channels_last:
        out, into, height, width = place.shape
        return columns.view(-1, out, height, width, into).permute(0, 1, 4, 2, 3)
    return columns.view(-1, *place.shape)
