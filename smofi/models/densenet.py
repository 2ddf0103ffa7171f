"""Densely connected networks: Huang et al., "Densely connected convolutional networks", CVPR 2017."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smofi.errors import check_count
from smofi.models.layers import chain, classifier, convolution, initialise
from smofi.models.norm import normalisation


class DenseLayer(nn.Module):
    """`growth` new features from all those before, which it passes on beside them: y = [x, F(x)].

    >>> DenseLayer(8, growth=4, norm="batch")(torch.zeros(1, 8, 6, 6)).shape
    torch.Size([1, 12, 6, 6])
    """

    def __init__(self, inputs: int, *, growth: int, norm: str) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                norm1=normalisation(norm, inputs),
                relu1=nn.ReLU(),
                conv1=convolution(inputs, 4 * growth, size=1),
                norm2=normalisation(norm, 4 * growth),
                relu2=nn.ReLU(),
                conv2=convolution(4 * growth, growth, size=3),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.features(x)], dim=1)


def _transition(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            norm=normalisation(norm, inputs),
            relu=nn.ReLU(),
            conv=convolution(inputs, outputs, size=1),
            pool=nn.AvgPool2d(2),
        )
    )


def densenet(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Stage s has `stages[s]` dense layers; between two stages a transition halves both the channels and the image.

    In the form for CIFAR, whose stem is a single 3x3 convolution at full resolution. A layer grows by width // 2.

    >>> list(dict(densenet([1, 1], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'core3', 'output']
    """
    check_count("classes", classes, low=2)
    check_count("channels", channels)
    growth = check_count("width", width, low=2) // 2
    blocks: list[nn.Module] = [nn.Sequential(OrderedDict(conv=convolution(channels, width, size=3)))]
    inputs = width
    for stage, count in enumerate(stages):
        if stage > 0:
            blocks.append(_transition(inputs, inputs // 2, norm))
            inputs //= 2
        for _ in range(count):
            blocks.append(DenseLayer(inputs, growth=growth, norm=norm))
            inputs += growth
    layers: OrderedDict[str, nn.Module] = OrderedDict(norm=normalisation(norm, inputs), relu=nn.ReLU())
    layers.update(classifier(inputs, classes))
    # A layer has many more inputs than outputs: weights sized by the outputs would let the features grow and grow.
    return initialise(chain([*blocks, nn.Sequential(layers)]), "fan_in")


def densenet121(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """58 dense layers and 3 transitions as core blocks, in the form for CIFAR; a layer grows by width // 2.

    6,956,298 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(densenet121(classes=10, channels=3, width=4)) - 2
    61
    """
    return densenet([6, 12, 24, 16], classes=classes, channels=channels, width=width, norm=norm)


def densenet169(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """82 dense layers and 3 transitions as core blocks, in the form for CIFAR; a layer grows by width // 2.

    12,493,322 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(densenet169(classes=10, channels=3, width=4)) - 2
    85
    """
    return densenet([6, 12, 32, 32], classes=classes, channels=channels, width=width, norm=norm)
