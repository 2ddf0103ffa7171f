"""Layers of many clients at once: under vmap, one call of the kernel that a single client's layer would call.

    images of C clients      [B, C, channels, H, W]: a batch of B images with C * channels channels, channels-last
    convolution              that of one client, with C times the groups; 1x1 ones are products of matrices
    normalisation, pooling   that of one client, with C times the channels and groups
    linear layer             a product of matrices per client, all in one call
    cross-entropy            that of C * B samples, averaged over those of each client

Every other operation is left to vmap's own rules. For these layers they would bring the clients to the front of some
tensors and behind the samples of others, and scale and shift in passes of their own: as much work as the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from smofi.engine.at_once.private import Internals, internals
from smofi.engine.at_once.products import products
from smofi.engine.cpu.kernels import suits_onednn
from smofi.engine.cpu.quicken import Quick
from smofi.engine.passes import IGNORED, Loss

ImageKernel = Callable[..., Tensor]
"""(layer, images `[B, C * channels, H, W]`, C, the layer's own tensors, of all clients) -> images."""

LARGE = 1 << 30


def merge_layers(model: nn.Module) -> bool:
    """Make the layers of a model compute all clients in one call, when it is called under vmap.

    Returns whether oneDNN should compute the convolutions that are still convolutions; 1x1 ones, on some of which it
    writes past its memory, are not, unless they are frozen.

    >>> model = nn.Sequential(nn.Linear(2, 1, bias=False))
    >>> merge_layers(model)
    True
    >>> weights, x = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]), torch.tensor([[3.0, 4.0]])
    >>> torch.vmap(lambda weight: torch.func.functional_call(model, {"0.weight": weight}, x))(weights).flatten()
    tensor([3., 4.])
    """
    convolutions = []
    for layer in model.modules():
        kernel = _kernel_of(layer)
        if kernel:
            layer.forward = partial(_images, kernel, layer)
        elif type(layer) is nn.Linear:
            layer.forward = partial(_linear, layer)  # type: ignore[method-assign]
        elif isinstance(layer, Quick):
            layer.in_place = False
        if isinstance(layer, nn.Conv2d) and kernel is not _pointwise:
            convolutions.append(layer)
    return suits_onednn(nn.ModuleList(convolutions), LARGE, LARGE)


def merge_loss(loss: Loss) -> Loss:
    """The same loss, which computes all clients in one call under vmap if it is `cross_entropy`.

    >>> outputs, targets = torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2], [3, IGNORED, 3]])
    >>> torch.vmap(merge_loss(functional.cross_entropy))(outputs, targets)  # log 4
    tensor([1.3863, 1.3863])
    """
    return _cross_entropy if loss is functional.cross_entropy else loss


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    inside = internals()
    level = inside.level()
    if level is None:
        return functional.cross_entropy(outputs, targets)
    logits, at = inside.unwrap(outputs, level)
    labels, labels_at = inside.unwrap(targets, level)
    if at != 0 or labels_at != 0 or logits.dim() != 3 or labels.dim() != 2:
        return functional.cross_entropy(outputs, targets)
    with inside.paused():
        each = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
        means = each.sum(1) / (labels != IGNORED).sum(1)
    return inside.wrap(means, 0, level)


def _kernel_of(layer: nn.Module) -> ImageKernel | None:
    if type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
        pointwise = set(layer.kernel_size) == {1} and layer.groups == 1 and set(layer.padding) == {0}
        return _pointwise if pointwise else _convolution
    if type(layer) is nn.BatchNorm2d and not (layer.training and layer.track_running_stats):
        return None
    return None if getattr(layer, "return_indices", False) else KERNELS.get(type(layer))


def _images(kernel: ImageKernel, layer: nn.Module, x: Tensor) -> Tensor:
    if isinstance(layer, nn.Conv2d) and x.dim() == 3:
        return _images(kernel, layer, x.unsqueeze(0)).squeeze(0)
    inside = internals()
    level = inside.level()
    found = _of_all_clients(inside, layer, x, level)
    if level is None or found is None or found[0].dim() != 5:
        return _unmerged(layer, x)
    images, at, own = found
    with inside.paused():
        clients = images.shape[at]
        merged = kernel(layer, _merge(images if at == 1 else images.movedim(at, 1)), clients, *own)
        per_client = merged.unflatten(1, (clients, -1))
    return inside.wrap(per_client, 1, level)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    inside = internals()
    level = inside.level()
    found = _of_all_clients(inside, layer, x, level)
    if level is None or found is None or found[0].dim() < 3:
        return _unmerged(layer, x)
    inputs, at, (weight, *bias) = found
    with inside.paused():
        inputs = inputs.movedim(at, 0) if at else inputs
        rows = inputs.flatten(1, -2)
        out = products(rows, weight, bias[0] if bias else None)
        per_client = out.unflatten(1, inputs.shape[1:-1])
    return inside.wrap(per_client, 0, level)


def _unmerged(layer: nn.Module, x: Tensor) -> Tensor:
    """The layer's own forward pass: outside of vmap, or with weights that are the same for all clients."""
    out: Tensor = type(layer).forward(layer, x)
    return out


def _of_all_clients(
    inside: Internals, layer: nn.Module, x: Tensor, level: int | None
) -> tuple[Tensor, int, list[Tensor]] | None:
    """The inputs of all clients, which of their dimensions the clients are, and the layer's tensors, clients first."""
    if level is None:
        return None
    inputs, at = inside.unwrap(x, level)
    tensors = {name: tensor for name in TENSORS if (tensor := getattr(layer, name, None)) is not None}
    own = {name: inside.unwrap(tensor, level) for name, tensor in tensors.items()}
    if any(dim != 0 for name, (_, dim) in own.items() if name != "bias") or (at is None and not own):
        return None
    clients = inputs.shape[at] if at is not None else len(next(iter(own.values()))[0])
    if at is None:
        inputs, at = inputs.expand(clients, *inputs.shape), 0
    return inputs, at, [tensor if dim == 0 else tensor.expand(clients, -1) for tensor, dim in own.values()]


def _merge(images: Tensor) -> Tensor:
    """`[B, C, channels, H, W]` as `[B, C * channels, H, W]`, channels-last: copied only if it is laid out
    differently."""
    if len(images) == 1:
        # The stride of a batch of one means nothing, but torch's own kernel for the gradient of the weights uses it.
        return images.flatten(1, 2).clone(memory_format=torch.channels_last)
    if images.stride(2) == 1 and images.stride(1) == images.shape[2]:
        return images.flatten(1, 2)
    return images.permute(0, 3, 4, 1, 2).flatten(3).permute(0, 3, 1, 2)


def _convolution(layer: nn.Conv2d, images: Tensor, clients: int, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernels = weight.permute(0, 1, 3, 4, 2).flatten(0, 1).permute(0, 3, 1, 2)
    bias = None if bias is None else bias.flatten()
    groups = clients * layer.groups
    return functional.conv2d(images, kernels, bias, layer.stride, layer.padding, layer.dilation, groups)


def _pointwise(layer: nn.Conv2d, images: Tensor, clients: int, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    down, right = layer.stride
    pixels = images[:, :, ::down, ::right].permute(0, 2, 3, 1).unflatten(3, (clients, -1))
    out = products(pixels.flatten(0, 2).transpose(0, 1), weight.flatten(2), bias, interleaved=True)
    merged: Tensor = out.transpose(0, 1).flatten(1).unflatten(0, pixels.shape[:3])
    return merged.permute(0, 3, 1, 2)


def _batch_norm(layer: nn.BatchNorm2d, images: Tensor, clients: int, *own: Tensor) -> Tensor:
    *affine, mean, variance = own
    weight, bias = _scale_and_shift(affine)
    # The running statistics are changed in place, so they have to be views.
    running = mean.view(-1), variance.view(-1)
    assert layer.momentum is not None
    return functional.batch_norm(images, *running, weight, bias, True, layer.momentum, layer.eps)


def _group_norm(layer: nn.GroupNorm, images: Tensor, clients: int, *affine: Tensor) -> Tensor:
    weight, bias = _scale_and_shift(affine)
    return functional.group_norm(images, clients * layer.num_groups, weight, bias, layer.eps)


def _scale_and_shift(affine: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    weight, bias, *_ = [*(tensor.flatten() for tensor in affine), None, None]
    return weight, bias


def _pooling(layer: nn.Module, images: Tensor, clients: int) -> Tensor:
    return _unmerged(layer, images)


KERNELS: dict[type[nn.Module], ImageKernel] = {
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.MaxPool2d: _pooling,
    nn.AvgPool2d: _pooling,
    nn.AdaptiveAvgPool2d: _pooling,
}

TENSORS = ("weight", "bias", "running_mean", "running_var")
