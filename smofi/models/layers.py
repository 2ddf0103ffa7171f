"""What several convolutional models are made of."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from smofi.models.norm import normalisation


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
