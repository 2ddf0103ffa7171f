"""The split executed for real: separate autograd graphs on each side that exchange only activations and cut gradients.

    client i     front(x_i) --up-->                                --up--> loss(back(z_i), y_i)
    server                        server(all activations) --down-->
    client i     <--down-- cut gradient                            (two parts: the loss is the server's)

Everything that crosses the cut passes through one hook, `wire(tensor, direction, client)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.noise import give_keys
from smofi.flat import blocks_of

Wire = Callable[[Tensor, str, int], Tensor]
"""wire(tensor, direction, client): what arrives of a tensor that crosses the cut, "up" or "down"."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""loss(outputs, targets): the mean loss of a batch, as a tensor of one number."""

Cast = Callable[[], AbstractContextManager[object]]
"""The precision that forward passes are computed in, such as `partial(torch.autocast, "cuda", torch.bfloat16)`."""


def direct(tensor: Tensor, direction: str, client: int) -> Tensor:
    """The wire of a simulation: nothing happens to what crosses the cut."""
    return tensor


@dataclass(frozen=True)
class Sides:
    """A model cut into what the client runs first, what the server runs, and (U shape) what the client runs last."""

    front: nn.Module
    server: nn.Module
    back: nn.Module | None

    @classmethod
    def of(cls, model: nn.Sequential, cut: Cut) -> Sides:
        """The sides of a model, sharing its tensors."""
        back = blocks_of(model, cut.last, cut.blocks) if cut.u_shaped else None
        return cls(blocks_of(model, 0, cut.first), blocks_of(model, cut.first, cut.last), back)


@dataclass(frozen=True)
class Work:
    """A client's share of one group step; `noise` and `keys` are what is random in it."""

    client: int
    sides: Sides
    inputs: Tensor
    targets: Tensor
    noise: int
    keys: Tensor | None = None


def split_backward(
    group: Sequence[Work],
    loss: Loss,
    wire: Wire = direct,
    reseed: Callable[[int], object] = torch.manual_seed,
    cast: Cast = nullcontext,
) -> list[Tensor]:
    """Gradients of a group's step, merged on the server; returns each client's loss.

    The loss is the mean over all samples of the group; client i's cut gradient is scaled by sum(B)/B_i, so that its own
    part sees the gradient of the mean over its own samples.
    """
    server, u_shaped = group[0].sides.server, group[0].sides.back is not None
    sizes = [len(work.inputs) for work in group]
    activations = [forward_front(work, reseed, cast) for work in group]
    arrived = [wire(a.detach(), "up", work.client) for a, work in zip(activations, group, strict=True)]
    merged = _join(arrived).requires_grad_()
    keys = [work.keys for work in group if work.keys is not None]
    give_keys(server, _join(keys) if keys else None)
    with cast():
        outputs = server(merged.clone())  # a copy, as on another machine: a first layer may work in place
    if u_shaped:
        ends = [
            backward_end(work, output, size / sum(sizes), loss, wire, cast)
            for work, output, size in zip(group, outputs.detach().split(sizes), sizes, strict=True)
        ]
        losses = [value for value, _ in ends]
        outputs.backward(_join([gradient for _, gradient in ends]))
    else:
        with cast():
            value = loss(outputs, _join([work.targets for work in group]))
        value.backward()
        losses = [value.detach()] * len(group)
    assert merged.grad is not None
    for work, activation, cut_gradient, size in zip(group, activations, merged.grad.split(sizes), sizes, strict=True):
        backward_front(work, activation, cut_gradient, size / sum(sizes), wire)
    return losses


def forward_front(work: Work, reseed: Callable[[int], object], cast: Cast) -> Tensor:
    """A client's activations at the cut."""
    reseed(work.noise)
    give_keys(work.sides.front, work.keys)
    with cast():
        activation: Tensor = work.sides.front(work.inputs)
    return activation


def backward_front(work: Work, activation: Tensor, cut_gradient: Tensor, share: float, wire: Wire) -> None:
    """The gradient of a client's own part; `share` is its part of the samples that the cut gradient is a mean over."""
    returned = wire(cut_gradient if share == 1 else cut_gradient / share, "down", work.client)
    if activation.requires_grad:
        activation.backward(returned)


def backward_end(work: Work, output: Tensor, share: float, loss: Loss, wire: Wire, cast: Cast) -> tuple[Tensor, Tensor]:
    """U shape: a client ends the forward pass on its own labels; its loss, and the gradient of what it was sent."""
    assert work.sides.back is not None
    give_keys(work.sides.back, work.keys)
    received = wire(output, "down", work.client).requires_grad_()
    with cast():
        value = loss(work.sides.back(received.clone()), work.targets)
    value.backward()
    assert received.grad is not None
    # the server's gradient is sum_i (B_i / sum B) g_i
    returned = wire(received.grad if share == 1 else received.grad * share, "up", work.client)
    return value.detach(), returned


def _join(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)
