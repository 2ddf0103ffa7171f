"""A small convolutional network in the manner of LeNet, normalised only if asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from smofi.errors import check_count
from smofi.models.catalogue import check_image_shape
from smofi.models.layers import initialise
from smofi.models.norm import normalisation


def _conv_block(inputs: int, outputs: int, norm: str | None) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv=nn.Conv2d(inputs, outputs, 3, padding=1))
    if norm is not None:
        layers["norm"] = normalisation(norm, outputs)
    return nn.Sequential(OrderedDict(**layers, relu=nn.ReLU(), pool=nn.MaxPool2d(2)))


def cnn(classes: int, input_shape: Sequence[int], width: int = 16, norm: str | None = None) -> nn.Sequential:
    """Two core blocks: a convolution of 2 * width channels, and a linear layer of 8 * width features.

    >>> list(dict(cnn(classes=10, input_shape=(1, 8, 8)).named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    channels, image_height, image_width = check_image_shape(input_shape, smallest=4)
    check_count("classes", classes, low=2)
    check_count("width", width)
    # Each of the two poolings halves the image, rounding down.
    pixels = (image_height // 4) * (image_width // 4)
    linear = nn.Linear(2 * width * pixels, 8 * width)
    blocks: OrderedDict[str, nn.Module] = OrderedDict(
        input=_conv_block(channels, width, norm),
        core1=_conv_block(width, 2 * width, norm),
        core2=nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=linear, relu=nn.ReLU())),
        output=nn.Sequential(OrderedDict(linear=nn.Linear(8 * width, classes))),
    )
    return initialise(nn.Sequential(blocks))
