"""Inverted residuals: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from smofi.errors import check_count
from smofi.models.layers import chain, classifier, convolution, initialise
from smofi.models.norm import normalisation

STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and first stride of each stage, the paper's table but for the second stage's stride."""

STEM, HEAD = 32, 1280


def _conv_norm_relu(inputs: int, outputs: int, norm: str, *, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv=convolution(inputs, outputs, size=size, stride=stride, groups=groups),
            norm=normalisation(norm, outputs),
            relu=nn.ReLU6(),
        )
    )


class InvertedResidual(nn.Module):
    """Expand, convolve each channel by itself, project without ReLU; the input is added where shapes agree.

    >>> import torch
    >>> InvertedResidual(4, 8, expansion=6, stride=2, norm="batch")(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, *, expansion: int, stride: int, norm: str) -> None:
        super().__init__()
        inner = expansion * inputs
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expansion != 1:
            layers["expand"] = _conv_norm_relu(inputs, inner, norm, size=1)
        layers["depthwise"] = _conv_norm_relu(inner, inner, norm, size=3, stride=stride, groups=inner)
        layers["project"] = nn.Sequential(
            OrderedDict(conv=convolution(inner, outputs, size=1), norm=normalisation(norm, outputs))
        )
        self.residual = nn.Sequential(layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.residual(x)
        return x + out if self.adds else out


def mobilenetv2(classes: int, channels: int, width: int = STEM, norm: str = "batch") -> nn.Sequential:
    """Seventeen core blocks. For small images stem and second stage keep the image's size: three halvings, not five.

    Every layer's channels are those of the paper times width / 32. 2,236,682 parameters for 10 classes and 3 channels:
    strides add none, so it is the published 3,504,872 for 1,000 classes less 990 classes of 1,281 each.

    >>> len(mobilenetv2(classes=10, channels=3, width=4)) - 2
    17
    """
    check_count("classes", classes, low=2)
    check_count("channels", channels)
    check_count("width", width)

    def scaled(count: int) -> int:
        return max(1, round(count * width / STEM))

    blocks: list[nn.Module] = [_conv_norm_relu(channels, width, norm, size=3)]
    inputs = width
    for expansion, count, repeats, first_stride in STAGES:
        for index in range(repeats):
            stride, outputs = first_stride if index == 0 else 1, scaled(count)
            blocks.append(InvertedResidual(inputs, outputs, expansion=expansion, stride=stride, norm=norm))
            inputs = outputs
    layers = OrderedDict(features=_conv_norm_relu(inputs, scaled(HEAD), norm, size=1))
    layers.update(classifier(scaled(HEAD), classes))
    return initialise(chain([*blocks, nn.Sequential(layers)]))
