"""Whether the clients of a model can be computed at once: two of them try it."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.private import why_missing
from smofi.engine.noise import give_keys, own_random_state
from smofi.engine.passes import Loss
from smofi.flat import Layout, shell
from smofi.models.dropout import dropouts, step_keys

TRIED, TOLERANCE = 4, 1e-10
"""How many samples are tried, and which difference is accepted, relative to the largest number."""


def why_not(template: nn.Sequential, loss: Loss, sample: tuple[Tensor, Tensor]) -> str | None:
    """Why clients of this model cannot be computed at once, None if they can: two of them try it.

    `sample` is a batch of inputs and targets. Double precision tells a wrong number from a rounded one.

    >>> batch = torch.eye(4), torch.arange(4)
    >>> why_not(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.functional.cross_entropy, batch)
    >>> why_not(nn.Sequential(nn.Linear(4, 4), nn.AlphaDropout()), nn.functional.cross_entropy, batch)
    'the clients of this model cannot be computed at once: vmap: called random operation while in randomness error mode'
    """
    if missing := why_missing():
        return missing
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
        many, keys = ClientsAtOnce(self.model, self.layout, self.loss), self.keys if self.has_dropout else None
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
