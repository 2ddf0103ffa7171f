"""What several models are made of: layers, and their first weights."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import nn

from smofi.errors import InputError, check_count, refuse
from smofi.models.catalogue import NORM, parse_norm

# --------------------------------------------------------------------------------------------------------------------
# Initial weights: He et al., "Delving deep into rectifiers", ICCV 2015.


def initialise(model: nn.Sequential, convolution_fan: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Sequential:
    """Draw initial weights by He's rule, in place; biases start at zero, normalisations stay the identity.

    With "fan_out" a convolution keeps the size of gradients, with "fan_in" that of what passes forward.

    >>> initialise(nn.Sequential(nn.Linear(2, 3)))[0].bias.tolist()
    [0.0, 0.0, 0.0]
    """
    found = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for layer in found:
        # std = gain / sqrt(fan); the gain is sqrt(2) in front of a ReLU and 1 for the logits, which have none.
        nonlinearity = "linear" if layer is found[-1] else "relu"
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
# Normalisations.


def groups_for(channels: int) -> int:
    """Return the most groups, up to eight, that divide the channels and leave at least two channels in each.

    A group of one channel would be instance normalisation, which forgets how strong each feature was.

    >>> groups_for(16), groups_for(12), groups_for(7), groups_for(1)
    (8, 6, 1, 1)
    """
    return max((groups for groups in range(1, min(8, channels // 2) + 1) if channels % groups == 0), default=1)


def normalisation(kind: str, channels: int) -> nn.Module:
    """Make a BatchNorm or a GroupNorm over `channels`.

    >>> normalisation("group", 16).num_groups, normalisation("group(2)", 16).num_groups
    (8, 2)
    """
    if not isinstance(kind, str):
        refuse("norm", kind, f'a string such as "{NORM}"')
    try:
        groups = parse_norm(kind)
    except InputError as error:
        whole = "" if str(error).startswith("norm=") else f"norm={kind!r}: "
        raise InputError(f"{whole}{error}") from None
    if groups is None:
        return nn.BatchNorm2d(channels)
    count = groups if isinstance(groups, int) else groups_for(channels)
    if channels % count:
        refuse("norm", kind, f"a number of groups that divides the channels of every layer, but one has {channels}")
    return nn.GroupNorm(count, channels)


# --------------------------------------------------------------------------------------------------------------------
# What several convolutional models are made of.


def check_sizes(classes: int, **others: int) -> None:
    """Refuse fewer than two classes, and other sizes below one."""
    check_count("classes", classes, low=2)
    for name, size in others.items():
        check_count(name, size)


def layers(**named: nn.Module) -> nn.Sequential:
    """Join layers that run one after the other, by their names.

    >>> list(dict(layers(linear=nn.Linear(2, 3), relu=nn.ReLU()).named_children()))
    ['linear', 'relu']
    """
    return nn.Sequential(OrderedDict(named))


def convolution(
    inputs: int, outputs: int, *, size: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    """Make a convolution that keeps the image's sides at stride 1; no bias where a normalisation follows.

    >>> convolution(3, 8, size=3).padding
    (1, 1)
    """
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=bias)


def classifier(inputs: int, classes: int) -> OrderedDict[str, nn.Module]:
    """Make the layers of an output block: the mean over the image, then a linear layer.

    >>> list(classifier(8, 10))
    ['pool', 'flatten', 'linear']
    """
    return OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), linear=nn.Linear(inputs, classes))


def stem(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    """Make the input block of networks for small images: a 3x3 convolution at full resolution, normalised.

    >>> [type(layer).__name__ for layer in stem(3, 8, "group")]
    ['Conv2d', 'GroupNorm', 'ReLU']
    """
    return layers(conv=convolution(inputs, outputs, size=3), norm=normalisation(norm, outputs), relu=nn.ReLU())


def chain(blocks: list[nn.Module]) -> nn.Sequential:
    """Join blocks by their names: input, core1, core2, ..., output.

    >>> list(dict(chain([nn.ReLU(), nn.ReLU(), nn.ReLU()]).named_children()))
    ['input', 'core1', 'output']
    """
    names = ["input", *(f"core{number}" for number in range(1, len(blocks) - 1)), "output"]
    return nn.Sequential(OrderedDict(zip(names, blocks, strict=True)))
