"""Plain stacks of 3x3 convolutions: Simonyan, Zisserman, "Very deep convolutional networks", ICLR 2015.

In the form for small images: a normalisation behind every convolution, and a single linear layer as the classifier in
place of three. Behind the last pooling comes the mean over what is left of the image, so that every size fits; of a
32x32 image a single pixel is left, and the mean changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from smofi.errors import check_count
from smofi.models.layers import chain, classifier, convolution, initialise
from smofi.models.norm import normalisation

FACTORS = (1, 2, 4, 8, 8)
"""The channels of each stage, as multiples of the width."""


def _block(inputs: int, outputs: int, norm: str, pooled: bool) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        # The published counts include the biases, although a BatchNorm takes them away again.
        conv=convolution(inputs, outputs, size=3, bias=True),
        norm=normalisation(norm, outputs),
        relu=nn.ReLU(),
    )
    if pooled:
        layers["pool"] = nn.MaxPool2d(2)
    return nn.Sequential(layers)


def vgg(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Stage s has `stages[s]` convolutions and ends in a pooling. The first convolution is the input block.

    >>> list(dict(vgg([1, 2], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    check_count("classes", classes, low=2)
    check_count("channels", channels)
    check_count("width", width)
    blocks: list[nn.Module] = []
    inputs = channels
    for factor, count in zip(FACTORS, stages, strict=False):
        for index in range(count):
            blocks.append(_block(inputs, factor * width, norm, pooled=index == count - 1))
            inputs = factor * width
    return initialise(chain([*blocks, nn.Sequential(classifier(inputs, classes))]))


def vgg11(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Seven core blocks, for sides from 32 up. Channels reach from width to 8 * width.

    9,231,114 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(vgg11(classes=10, channels=1, width=4)) - 2
    7
    """
    return vgg([1, 1, 2, 2, 2], classes=classes, channels=channels, width=width, norm=norm)


def vgg16(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Twelve core blocks, for sides from 32 up. Channels reach from width to 8 * width.

    14,728,266 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(vgg16(classes=10, channels=3, width=4)) - 2
    12
    """
    return vgg([2, 2, 3, 3, 3], classes=classes, channels=channels, width=width, norm=norm)
