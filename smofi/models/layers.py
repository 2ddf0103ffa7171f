"""What several models are made of: layers, and their first weights."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import nn

from smofi.models.norm import normalisation

# --------------------------------------------------------------------------------------------------------------------
# Initial weights: He et al., "Delving deep into rectifiers", ICCV 2015.


def initialise(model: nn.Sequential, convolution_fan: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Sequential:
    """He initialisation in place; biases start at zero, normalisations stay the identity.

    With "fan_out" a convolution keeps the size of gradients, with "fan_in" that of what passes forward.

    >>> initialise(nn.Sequential(nn.Linear(2, 3)))[0].bias.tolist()
    [0.0, 0.0, 0.0]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for layer in layers:
        # std = gain / sqrt(fan); the gain is sqrt(2) in front of a ReLU and 1 for the logits, which have none.
        nonlinearity = "linear" if layer is layers[-1] else "relu"
        fan = convolution_fan if isinstance(layer, nn.Conv2d) else "fan_in"
        nn.init.kaiming_normal_(layer.weight, mode=fan, nonlinearity=nonlinearity)  # type: ignore[arg-type, unused-ignore]
        if isinstance(layer, nn.Conv2d) and layer.groups > 1 and fan == "fan_out":
            # Torch counts the outputs of all groups into the fan, but an input feeds those of its own group only.
            with torch.no_grad():
                layer.weight.mul_(layer.groups**0.5)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model


# --------------------------------------------------------------------------------------------------------------------
# What several convolutional models are made of.


def convolution(
    inputs: int, outputs: int, *, size: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    """A convolution that keeps the image's sides at stride 1; no bias where a normalisation follows.

    >>> convolution(3, 8, size=3).padding
    (1, 1)
    """
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=bias)


def classifier(inputs: int, classes: int) -> OrderedDict[str, nn.Module]:
    """The mean over the image, then a linear layer.

    >>> list(classifier(8, 10))
    ['pool', 'flatten', 'linear']
    """
    return OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), linear=nn.Linear(inputs, classes))


def stem(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    """The input block of networks for small images: a 3x3 convolution at full resolution, normalised.

    >>> [type(layer).__name__ for layer in stem(3, 8, "group")]
    ['Conv2d', 'GroupNorm', 'ReLU']
    """
    layers = OrderedDict(conv=convolution(inputs, outputs, size=3), norm=normalisation(norm, outputs), relu=nn.ReLU())
    return nn.Sequential(layers)


def chain(blocks: list[nn.Module]) -> nn.Sequential:
    """Blocks by their names: input, core1, core2, ..., output.

    >>> list(dict(chain([nn.ReLU(), nn.ReLU(), nn.ReLU()]).named_children()))
    ['input', 'core1', 'output']
    """
    names = ["input", *(f"core{number}" for number in range(1, len(blocks) - 1)), "output"]
    return nn.Sequential(OrderedDict(zip(names, blocks, strict=True)))
