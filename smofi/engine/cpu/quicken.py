"""The same layers with less work: for every model that a round computes with, built in or the user's.

    ReLU, MaxPool     run as MaxPool, ReLU, on a quarter of the numbers: the largest of them stays the largest
    Conv, ReLU        work in place, where nothing else will read what the ReLU reads
    Conv, BatchNorm   are one convolution in evaluation, when a normalisation only scales and shifts
    BatchNorm         counts no batches: only a momentum of None would need their number
    any layer         is called without a module's ceremony, unless a hook watches it

An `nn.Sequential` keeps its layers as they are, where they are: only its own forward pass runs them differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

from smofi.engine.cpu.private import hooks_of, hooks_of_all, is_view, is_watched

Model = TypeVar("Model", bound=nn.Module)
Layer = Callable[..., Any]

CONVOLUTIONS: dict[type, Layer] = {
    nn.Conv1d: functional.conv1d,
    nn.Conv2d: functional.conv2d,
    nn.Conv3d: functional.conv3d,
}
POOLINGS: dict[type, Layer] = {
    nn.MaxPool1d: torch.max_pool1d,
    nn.MaxPool2d: torch.max_pool2d,
    nn.MaxPool3d: torch.max_pool3d,
}
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
            vars(module)["steps"] = Steps()
        elif type(module) in NORMALISATIONS.values() and module.momentum is not None:
            module.register_buffer("num_batches_tracked", None)
    return model


class Quick(nn.Sequential):
    """An `nn.Sequential` that runs its layers with less work.

    Under vmap a layer's output is a view: to change it in place costs more than it saves, so `in_place` is to be False.
    """

    in_place: bool = True

    def __init__(self, *layers: Any) -> None:
        super().__init__(*layers)
        self.steps = Steps()

    def forward(self, input: Any) -> Any:
        if torch.compiler.is_compiling():
            # a compiler finds shortcuts of its own
            return super().forward(input)  # type: ignore[no-untyped-call]
        x = input
        if self.training or torch.is_grad_enabled():
            for step in self.steps.of(self):
                x = step(x)
        else:
            for layer, works_in_place in _in_place(_folded(_poolings_first(self)), self.in_place):
                x = x.relu_() if works_in_place and not is_view(x) else layer(x)
        return x


class Steps:
    """The calls that a training pass through a block consists of, found once. A copy of the block finds its own."""

    def __init__(self) -> None:
        self.found_for: tuple[object, ...] = ()
        self.hooks: list[Any] = []
        self.quick: list[Layer] = []

    def __reduce__(self) -> tuple[type[Steps], tuple[()]]:
        return Steps, ()

    def of(self, block: Quick) -> list[Layer]:
        """The calls, one after the other; where a hook watches, calls that it sees."""
        found_for = (block.in_place, *block._modules.values())
        if found_for != self.found_for:
            layers = list(block)
            self.hooks = [*hooks_of_all(), *(hooks for layer in layers for hooks in hooks_of(layer))]
            self.quick = _calls(block, _direct)
            self.found_for = found_for
        return _calls(block, lambda layer: layer) if any(self.hooks) else self.quick


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


def _calls(block: Quick, call: Callable[[Layer], Layer]) -> list[Layer]:
    """What `call` makes of a block's layers, and ReLUs in place where that is allowed."""
    layers = _in_place(_poolings_first(block), block.in_place)
    return [_relu_in_place(call(layer)) if works_in_place else call(layer) for layer, works_in_place in layers]


def _direct(layer: Any) -> Layer:
    """A layer as the function that its forward pass comes down to."""
    kind = type(layer)
    forward: Layer = layer.forward if isinstance(layer, nn.Module) else layer
    if forward is layer or "forward" in vars(layer):
        return forward
    if kind in POOLINGS and not layer.return_indices:
        pool, window = POOLINGS[kind], (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
        return lambda x: pool(x, *window)
    own: dict[str, Any] = layer._parameters  # looked up by name, for they may be exchanged
    if not own.keys() >= {"weight", "bias"}:
        return forward
    if kind in CONVOLUTIONS and layer.padding_mode == "zeros":
        convolve, how = CONVOLUTIONS[kind], (layer.stride, layer.padding, layer.dilation, layer.groups)
        return lambda x: convolve(x, own["weight"], own["bias"], *how)
    if kind is nn.Linear:
        return lambda x: functional.linear(x, own["weight"], own["bias"])
    return forward


def _relu_in_place(relu: Layer) -> Layer:
    return lambda x: relu(x) if is_view(x) else x.relu_()


def _in_place(layers: Sequence[Layer], allowed: bool) -> list[tuple[Layer, bool]]:
    """Each layer, and whether it is a ReLU that may change its input, unless that is a view."""
    before = [None, *layers]
    return [
        (layer, allowed and type(layer) is nn.ReLU and type(last) in WRITERS)
        for last, layer in zip(before, layers, strict=False)
    ]


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
