"""The gradients of many clients at once: one forward and one backward pass over the rows of all of them.

    weights     [C, P]  --views-->  the parameters of C clients  --vmap(model, loss)-->  losses [C]
    gradients   [C, P]  <--copied--  d(sum of losses) / d(parameters): no client's loss depends on another's row

The derivative is taken outside of vmap, so that only the forward pass goes through its rules.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.func import vmap

from smofi.engine.at_once.layers import merge_layers, merge_loss
from smofi.engine.cpu.kernels import convolutions
from smofi.engine.noise import give_keys, own_random_state
from smofi.engine.passes import Cast, Loss
from smofi.flat import Layout, Place, shell
from smofi.models.dropout import Dropout, dropouts, step_keys

TRIED, TOLERANCE = 4, 1e-10
"""`why_not` tries as many samples, and accepts as large a difference, relative to the largest number."""


class Many:
    """A model, of which `template` is the structure, for rows of any number of clients.

    >>> model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(0))
    >>> many = Many(model, Layout.of(model), nn.functional.mse_loss)
    >>> weights, gradients = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.empty(2, 2)
    >>> inputs, targets = torch.tensor([[[3.0, 4.0]], [[3.0, 4.0]]]), torch.tensor([[1.0], [1.0]])
    >>> many.backward(weights, torch.empty(2, 0), gradients, inputs, targets)
    tensor([ 4., 49.])
    >>> gradients.tolist()  # 2 (w x - y) x
    [[12.0, 16.0], [42.0, 56.0]]
    """

    def __init__(self, template: nn.Sequential, layout: Layout, loss: Loss, cast: Cast = nullcontext) -> None:
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
        places = self.layout.parameters
        parameters = [leaf.requires_grad_() for leaf in _tensors(places, weights.detach())]
        rows = _tensors(self.layout.statistics, statistics)
        running = [tensor.contiguous() for tensor in rows]  # layers see the clients' channels as one run of channels
        with convolutions(self.onednn):
            with self.cast():
                losses = self._losses([*parameters, *running], inputs, targets, keys)
            found = torch.autograd.grad(losses, parameters, torch.ones_like(losses), materialize_grads=True)
        with torch.no_grad():
            torch._foreach_copy_(_tensors(places, gradients), found)
            if rows:
                torch._foreach_copy_(rows, running)
        return losses.detach()

    def _losses(self, tensors: Sequence[Tensor], inputs: Tensor, targets: Tensor, keys: Tensor | None) -> Tensor:
        def forward(inputs: Tensor, targets: Tensor, keys: Tensor | None) -> Tensor:
            level = functorch.current_level()
            # As arguments they would be wrapped just so, but slower.
            for (owner, name), tensor in zip(self.slots, tensors, strict=True):
                owner[name] = functorch._add_batch_dim(tensor, 0, level)
            for dropout in self.dropouts:
                dropout.keys = keys
            return self.loss(self.model(inputs), targets)

        of_clients = (0, 0, None if keys is None else 0)
        try:
            losses: Tensor = vmap(forward, of_clients, randomness="error")(inputs, targets, keys)
        finally:
            for owner, name in self.slots:
                owner[name] = None  # so that nobody's tensors are kept alive
            for dropout in self.dropouts:
                dropout.keys = None
        return losses

    def _slot(self, place: Place) -> tuple[dict[str, Any], str]:
        """Where the model looks for this tensor."""
        owner, _, name = place.name.rpartition(".")
        module = self.model.get_submodule(owner)
        return (module._parameters if name in module._parameters else module._buffers), name


def why_not(template: nn.Sequential, loss: Loss, sample: tuple[Tensor, Tensor]) -> str | None:
    """Why clients of this model cannot be computed at once, None if they can: two of them try it.

    `sample` is a batch of inputs and targets. Double precision tells a wrong number from a rounded one.

    >>> batch = torch.eye(4), torch.arange(4)
    >>> why_not(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.functional.cross_entropy, batch)
    >>> why_not(nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout()), nn.functional.cross_entropy, batch)
    'the clients of this model cannot be computed at once: vmap: called random operation while in randomness error mode'
    """
    with own_random_state(sample[0].device):
        return _Trial(template, loss, sample).verdict()


class _Trial:
    """One step of two clients with weights and samples of their own."""

    def __init__(self, template: nn.Sequential, loss: Loss, sample: tuple[Tensor, Tensor]) -> None:
        self.model = copy.deepcopy(template).double().train()
        self.loss = copy.deepcopy(loss).double() if isinstance(loss, nn.Module) else loss
        self.inputs, self.targets = (torch.stack([t[:TRIED], t.flip(0)[:TRIED]]) for t in map(_doubled, sample))
        device, batch = self.inputs.device, self.inputs.shape[1]
        self.model.to(device)
        self.layout = Layout.of(self.model)
        self.keys = torch.stack([step_keys(1, batch, device), step_keys(2, batch, device)])
        self.has_dropout = bool(dropouts(self.model))
        self.rows = [torch.stack([row, row]) for row in self.layout.pack(self.model, device)]
        self.rows[0][1] *= 1.01

    def verdict(self) -> str | None:
        before = self._constants()
        try:
            expected = self._client_by_client()
        except Exception as error:
            return f"this model cannot be tried in double precision: {_first_line(error)}"
        try:
            found = self._at_once()
        except Exception as error:
            return f"the clients of this model cannot be computed at once: {_first_line(error)}"
        for name, tensor in self._constants().items():
            if not torch.equal(tensor, before[name]):
                return f"the clients of this model cannot be computed at once: its buffer {name} changes"
        for what in expected:
            gap = _gap(found[what], expected[what])
            if not gap <= TOLERANCE:
                return f"computed at once, the {what} of this model's clients are off by {gap:.1g} of the largest"
        return None

    def _client_by_client(self) -> dict[str, Tensor]:
        weights, statistics = (rows.clone() for rows in self.rows)
        gradients, losses = torch.zeros_like(weights), []
        for row in range(len(weights)):
            model = shell(self.model)
            self.layout.bind(model, weights[row].__getitem__, statistics[row].__getitem__, gradients[row].__getitem__)
            give_keys(model, self.keys[row])
            value = self.loss(model(self.inputs[row].clone()), self.targets[row])
            value.backward()
            losses.append(value.detach())
        return {"losses": torch.stack(losses), "gradients": gradients, "statistics": statistics}

    def _at_once(self) -> dict[str, Tensor]:
        weights, statistics = (rows.clone() for rows in self.rows)
        gradients = torch.zeros_like(weights)
        many, keys = Many(self.model, self.layout, self.loss), self.keys if self.has_dropout else None
        losses = many.backward(weights, statistics, gradients, self.inputs.clone(), self.targets, keys)
        return {"losses": losses, "gradients": gradients, "statistics": statistics}

    def _constants(self) -> dict[str, Tensor]:
        """What no client may change."""
        averaged = {place.name for place in self.layout.statistics}
        return {name: b.clone() for name, b in self.model.named_buffers() if name not in averaged}


def _doubled(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _gap(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number; not a number where only one of them is finite."""
    differ = (found != expected) & ~(found.isnan() & expected.isnan())
    if not differ.any():
        return 0.0
    largest = expected[expected.isfinite()].abs().max()
    return float((found - expected)[differ].abs().max() / largest)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".")


def _tensors(places: Sequence[Place], rows: Tensor) -> list[Tensor]:
    """What all rows `[C, columns]` hold at these places, `[C, ...]`: views."""
    pieces = rows.split([place.shape.numel() for place in places], dim=1)
    return [_view(place, piece) for place, piece in zip(places, pieces, strict=True)]


def _view(place: Place, columns: Tensor) -> Tensor:
    if place.channels_last:
        out, into, height, width = place.shape
        return columns.view(-1, out, height, width, into).permute(0, 1, 4, 2, 3)
    return columns.view(-1, *place.shape)
