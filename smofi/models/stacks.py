"""Layers one after the other: a perceptron, a small network in the manner of LeNet, and VGG."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from smofi.models.catalogue import check_image_shape, check_vector_shape
from smofi.models.layers import chain, check_sizes, classifier, convolution, initialise, layers, normalisation


def mlp(classes: int, input_shape: Sequence[int], width: int = 128) -> nn.Sequential:
    """Make linear layers with ReLU between them, for vectors: two core blocks, all but the last of `width` features.

    >>> list(dict(mlp(classes=3, input_shape=(4,)).named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    features = check_vector_shape(input_shape, "features")
    check_sizes(classes, width=width)
    hidden = [layers(linear=nn.Linear(size, width), relu=nn.ReLU()) for size in (features, width, width)]
    return initialise(chain([*hidden, layers(linear=nn.Linear(width, classes))]))


def cnn(classes: int, input_shape: Sequence[int], width: int = 16, norm: str | None = None) -> nn.Sequential:
    """Make two core blocks: a convolution of 2 * width channels, and a linear layer of 8 * width features.

    >>> list(dict(cnn(classes=10, input_shape=(1, 8, 8)).named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    channels, image_height, image_width = check_image_shape(input_shape, smallest=4)
    check_sizes(classes, width=width)

    def convolved(inputs: int, outputs: int) -> nn.Sequential:
        normed = {} if norm is None else {"norm": normalisation(norm, outputs)}
        return layers(conv=nn.Conv2d(inputs, outputs, 3, padding=1), **normed, relu=nn.ReLU(), pool=nn.MaxPool2d(2))

    # Each of the two poolings halves the image, rounding down.
    pixels = (image_height // 4) * (image_width // 4)
    first, second = convolved(channels, width), convolved(width, 2 * width)
    hidden = layers(flatten=nn.Flatten(), linear=nn.Linear(2 * width * pixels, 8 * width), relu=nn.ReLU())
    return initialise(chain([first, second, hidden, layers(linear=nn.Linear(8 * width, classes))]))


# --------------------------------------------------------------------------------------------------------------------
# VGG: Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015.
#
# In the form for small images: a normalisation behind every convolution, and a single linear layer as the classifier
# in place of three. Behind the last pooling comes the mean over what is left of the image, so that every size fits; of
# a 32x32 image a single pixel is left, and the mean changes nothing.

FACTORS = (1, 2, 4, 8, 8)
"""The channels of each stage, as multiples of the width."""


def _convolved(inputs: int, outputs: int, norm: str, pooled: bool) -> nn.Sequential:
    # The published counts include the biases, although a BatchNorm takes them away again.
    conv = convolution(inputs, outputs, size=3, bias=True)
    pool = {"pool": nn.MaxPool2d(2)} if pooled else {}
    return layers(conv=conv, norm=normalisation(norm, outputs), relu=nn.ReLU(), **pool)


def vgg(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Make a VGG. Stage s has `stages[s]` convolutions and ends in a pooling. The first convolution is the input block.

    >>> list(dict(vgg([1, 2], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    check_sizes(classes, channels=channels, width=width)
    blocks: list[nn.Module] = []
    inputs = channels
    for factor, count in zip(FACTORS, stages, strict=False):
        for index in range(count):
            blocks.append(_convolved(inputs, factor * width, norm, pooled=index == count - 1))
            inputs = factor * width
    return initialise(chain([*blocks, layers(**classifier(inputs, classes))]))


def vgg11(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make seven core blocks, for sides from 32 up. Channels reach from width to 8 * width.

    9,231,114 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(vgg11(classes=10, channels=1, width=4)) - 2
    7
    """
    return vgg([1, 1, 2, 2, 2], classes=classes, channels=channels, width=width, norm=norm)


def vgg16(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make twelve core blocks, for sides from 32 up. Channels reach from width to 8 * width.

    14,728,266 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(vgg16(classes=10, channels=3, width=4)) - 2
    12
    """
    return vgg([2, 2, 3, 3, 3], classes=classes, channels=channels, width=width, norm=norm)
