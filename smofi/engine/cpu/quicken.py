"""The same layers with less work: for every model that a round computes with, built in or the user's.

    ReLU, MaxPool     run as MaxPool, ReLU, on a quarter of the numbers: the largest of them stays the largest
    Conv, ReLU        work in place, where nothing else will read what the ReLU reads
    Conv, BatchNorm   are one convolution in evaluation, when a normalisation only scales and shifts
    BatchNorm         counts no batches: only a momentum of None would need their number

An `nn.Sequential` keeps its layers as they are, where they are: only its own forward pass runs them differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

from smofi.engine.cpu.private import is_view, is_watched

Model = TypeVar("Model", bound=nn.Module)
Layer = Callable[..., Any]

CONVOLUTIONS: dict[type, Layer] = {
    nn.Conv1d: functional.conv1d,
    nn.Conv2d: functional.conv2d,
    nn.Conv3d: functional.conv3d,
}
POOLINGS = {nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d}
NORMALISATIONS: dict[type, type] = {nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d}
"""The one that fits each convolution."""


def quicken(model: Model) -> Model:
    """Let the blocks of a model compute the same with less work; the model is changed, none of its weights is.

    Layers are not reordered across blocks, because a cut may separate them.

    >>> model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2)), nn.Flatten())
    >>> quicken(model)[0]
    Quick(
      (0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): ReLU()
      (2): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    )
    """
    for module in model.modules():
        if type(module) is nn.Sequential and module is not model and not any(map(_altered, [module, *module])):
            module.__class__ = Quick
        elif type(module) in NORMALISATIONS.values() and module.momentum is not None:
            module.register_buffer("num_batches_tracked", None)
    return model


class Quick(nn.Sequential):
    """An `nn.Sequential` that runs its layers with less work.

    Under vmap a layer's output is a view: to change it in place costs more than it saves, so `in_place` is to be False.
    """

    in_place: bool = True

    def forward(self, input: Any) -> Any:
        if torch.compiler.is_compiling():
            # a compiler finds shortcuts of its own
            return super().forward(input)  # type: ignore[no-untyped-call]
        layers = _poolings_first(self)
        x, before = input, None
        for layer in layers if self.training or torch.is_grad_enabled() else _folded(layers):
            in_place = self.in_place and type(layer) is nn.ReLU and type(before) in WRITERS and not is_view(x)
            x, before = x.relu_() if in_place else layer(x), layer
        return x


@dataclass(frozen=True)
class Folded:
    """A convolution and a BatchNorm in evaluation as one convolution.

    y = s (W x + b - mean) + beta = (s W) x + (s (b - mean) + beta),   s = gamma / sqrt(variance + eps)
    """

    convolution: Any
    norm: Any

    def __call__(self, x: Tensor) -> Tensor:
        convolution, norm = self.convolution, self.norm
        weight, bias = fuse_conv_bn_weights(
            *(convolution.weight, convolution.bias),
            *(norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias),
        )
        if convolution.padding_mode != "zeros":
            padded: Tensor = functional_call(convolution, {"weight": weight, "bias": bias}, (x,))
            return padded
        how = convolution.stride, convolution.padding, convolution.dilation, convolution.groups
        out: Tensor = CONVOLUTIONS[type(convolution)](x, weight, bias, *how)
        return out


WRITERS = {*NORMALISATIONS, *NORMALISATIONS.values(), *POOLINGS, Folded, nn.Linear, nn.GroupNorm, nn.LayerNorm}
"""Layers whose output is new memory that their own gradients do not depend on."""


def _poolings_first(layers: Iterable[nn.Module]) -> list[Layer]:
    ordered: list[Layer] = []
    for layer in layers:
        if ordered and type(ordered[-1]) is nn.ReLU and type(layer) in POOLINGS and _sees_an_element(layer):
            ordered[-1:] = [layer, _relu]
        else:
            ordered.append(layer)
    return ordered


def _sees_an_element(pooling: Any) -> bool:
    """Whether each window contains an element of the image, as a dilated one in the padding may not: its largest is
    -inf, and not 0."""
    return pooling.dilation == 1 and not pooling.return_indices


def _relu(x: Tensor) -> Tensor:
    """A ReLU that keeps its input for the gradient: its output may be changed in place, as that of a pooling may."""
    return torch.threshold(x, 0, 0)


def _folded(layers: list[Layer]) -> list[Layer]:
    folded: list[Any] = []
    layer: Any
    for layer in layers:
        fits = folded and NORMALISATIONS.get(type(folded[-1])) is type(layer)
        if fits and not layer.training and layer.running_mean is not None:
            folded[-1] = Folded(folded[-1], layer)
        else:
            folded.append(layer)
    return folded


def _altered(module: nn.Module) -> bool:
    """Whether a module is watched, or what it does has been replaced."""
    return is_watched(module) or "forward" in vars(module)
