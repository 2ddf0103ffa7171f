"""Networks whose blocks pass their input on, beside what they make of it: ResNet, MobileNetV2 and DenseNet."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smofi.errors import check_count
from smofi.models.layers import (
    chain,
    check_sizes,
    classifier,
    convolution,
    initialise,
    layers,
    normalisation,
    stem,
)

# --------------------------------------------------------------------------------------------------------------------
# Residual networks of basic blocks: He et al., "Deep residual learning for image recognition", CVPR 2016.


class BasicBlock(nn.Module):
    """Compute two 3x3 convolutions beside a shortcut: y = relu(F(x) + S(x)).

    >>> BasicBlock(4, 8, stride=2, norm="batch")(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int, norm: str) -> None:
        super().__init__()
        self.residual = layers(
            conv1=convolution(inputs, outputs, size=3, stride=stride),
            norm1=normalisation(norm, outputs),
            relu=nn.ReLU(),
            conv2=convolution(outputs, outputs, size=3),
            norm2=normalisation(norm, outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            conv = convolution(inputs, outputs, size=1, stride=stride)
            self.shortcut = layers(conv=conv, norm=normalisation(norm, outputs))
        self.relu = nn.ReLU(inplace=True)  # nothing else reads the sum

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out


def resnet(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Make a ResNet. Stage s has `stages[s]` basic blocks of width * 2**s channels; all but the first halve the image.

    >>> list(dict(resnet([1, 1], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    check_sizes(classes, channels=channels, width=width)
    blocks: list[nn.Module] = [stem(channels, width, norm)]
    inputs = width
    for stage, count in enumerate(stages):
        for index in range(count):
            outputs, stride = width * 2**stage, 2 if stage > 0 and index == 0 else 1
            blocks.append(BasicBlock(inputs, outputs, stride=stride, norm=norm))
            inputs = outputs
    return initialise(chain([*blocks, layers(**classifier(inputs, classes))]))


def resnet8(classes: int, channels: int, width: int = 16, norm: str = "batch") -> nn.Sequential:
    """Make three core blocks, for images from 8x8 up.

    >>> len(resnet8(classes=10, channels=1))
    5
    """
    return resnet([1, 1, 1], classes=classes, channels=channels, width=width, norm=norm)


def resnet18(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make eight core blocks, as for CIFAR: a 3x3 stem and no max-pooling. Stages of width, 2, 4 and 8 * width.

    11,173,962 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(resnet18(classes=10, channels=3, width=4)) - 2
    8
    """
    return resnet([2, 2, 2, 2], classes=classes, channels=channels, width=width, norm=norm)


def resnet34(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make sixteen core blocks, as for CIFAR: a 3x3 stem and no max-pooling. Stages of width, 2, 4 and 8 * width.

    21,282,122 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(resnet34(classes=10, channels=3, width=4)) - 2
    16
    """
    return resnet([3, 4, 6, 3], classes=classes, channels=channels, width=width, norm=norm)


# --------------------------------------------------------------------------------------------------------------------
# Inverted residuals: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018.

STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and first stride of each stage, the paper's table but for the second stage's stride."""

STEM, HEAD = 32, 1280


def _conv_norm_relu(inputs: int, outputs: int, norm: str, *, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    conv = convolution(inputs, outputs, size=size, stride=stride, groups=groups)
    return layers(conv=conv, norm=normalisation(norm, outputs), relu=nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand, convolve each channel by itself, project without ReLU; the input is added where shapes agree.

    >>> InvertedResidual(4, 8, expansion=6, stride=2, norm="batch")(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, *, expansion: int, stride: int, norm: str) -> None:
        super().__init__()
        inner = expansion * inputs
        expand = {"expand": _conv_norm_relu(inputs, inner, norm, size=1)} if expansion != 1 else {}
        depthwise = _conv_norm_relu(inner, inner, norm, size=3, stride=stride, groups=inner)
        project = layers(conv=convolution(inner, outputs, size=1), norm=normalisation(norm, outputs))
        self.residual = layers(**expand, depthwise=depthwise, project=project)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.residual(x)
        return x + out if self.adds else out


def mobilenetv2(classes: int, channels: int, width: int = STEM, norm: str = "batch") -> nn.Sequential:
    """Make seventeen core blocks. For small images stem and second stage keep the size: three halvings, not five.

    Every layer's channels are those of the paper times width / 32. 2,236,682 parameters for 10 classes and 3 channels:
    strides add none, so it is the published 3,504,872 for 1,000 classes less 990 classes of 1,281 each.

    >>> len(mobilenetv2(classes=10, channels=3, width=4)) - 2
    17
    """
    check_sizes(classes, channels=channels, width=width)

    def scaled(count: int) -> int:
        return max(1, round(count * width / STEM))

    blocks: list[nn.Module] = [_conv_norm_relu(channels, width, norm, size=3)]
    inputs = width
    for expansion, count, repeats, first_stride in STAGES:
        for index in range(repeats):
            stride, outputs = first_stride if index == 0 else 1, scaled(count)
            blocks.append(InvertedResidual(inputs, outputs, expansion=expansion, stride=stride, norm=norm))
            inputs = outputs
    features = _conv_norm_relu(inputs, scaled(HEAD), norm, size=1)
    return initialise(chain([*blocks, layers(features=features, **classifier(scaled(HEAD), classes))]))


# --------------------------------------------------------------------------------------------------------------------
# Densely connected networks: Huang et al., "Densely connected convolutional networks", CVPR 2017.


class DenseLayer(nn.Module):
    """`growth` new features from all those before, which it passes on beside them: y = [x, F(x)].

    >>> DenseLayer(8, growth=4, norm="batch")(torch.zeros(1, 8, 6, 6)).shape
    torch.Size([1, 12, 6, 6])
    """

    def __init__(self, inputs: int, *, growth: int, norm: str) -> None:
        super().__init__()
        self.features = layers(
            norm1=normalisation(norm, inputs),
            relu1=nn.ReLU(),
            conv1=convolution(inputs, 4 * growth, size=1),
            norm2=normalisation(norm, 4 * growth),
            relu2=nn.ReLU(),
            conv2=convolution(4 * growth, growth, size=3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.features(x)], dim=1)


def _transition(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    conv = convolution(inputs, outputs, size=1)
    return layers(norm=normalisation(norm, inputs), relu=nn.ReLU(), conv=conv, pool=nn.AvgPool2d(2))


def densenet(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Make a DenseNet. Stage s has `stages[s]` dense layers; between stages a transition halves channels and image.

    In the form for CIFAR, whose stem is a single 3x3 convolution at full resolution. A layer grows by width // 2.

    >>> list(dict(densenet([1, 1], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'core3', 'output']
    """
    check_sizes(classes, channels=channels)
    growth = check_count("width", width, low=2) // 2
    blocks: list[nn.Module] = [layers(conv=convolution(channels, width, size=3))]
    inputs = width
    for stage, count in enumerate(stages):
        if stage > 0:
            blocks.append(_transition(inputs, inputs // 2, norm))
            inputs //= 2
        for _ in range(count):
            blocks.append(DenseLayer(inputs, growth=growth, norm=norm))
            inputs += growth
    output = layers(norm=normalisation(norm, inputs), relu=nn.ReLU(), **classifier(inputs, classes))
    # A layer has many more inputs than outputs: weights sized by the outputs would let the features grow and grow.
    return initialise(chain([*blocks, output]), "fan_in")


def densenet121(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make 58 dense layers and 3 transitions as core blocks, in the form for CIFAR; a layer grows by width // 2.

    6,956,298 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(densenet121(classes=10, channels=3, width=4)) - 2
    61
    """
    return densenet([6, 12, 24, 16], classes=classes, channels=channels, width=width, norm=norm)


def densenet169(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Make 82 dense layers and 3 transitions as core blocks, in the form for CIFAR; a layer grows by width // 2.

    12,493,322 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(densenet169(classes=10, channels=3, width=4)) - 2
    85
    """
    return densenet([6, 12, 32, 32], classes=classes, channels=channels, width=width, norm=norm)
