"""The two architectures in torch alone, so that a peer needs nothing of smofi. A test compares them with smofi's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn


def build(name: str, input_shape: Sequence[int], classes: int, width: int) -> nn.Sequential:
    """A model by the name smofi knows it by, its parameters named as smofi names them."""
    return {"cnn": cnn, "resnet8": resnet8}[name](input_shape, classes, width)


def cnn(input_shape: Sequence[int], classes: int, width: int) -> nn.Sequential:
    """Two convolutions, each followed by pooling, and two linear layers."""
    channels, height, breadth = input_shape
    features = 2 * width * (height // 4) * (breadth // 4)
    return named(
        input=named(conv=nn.Conv2d(channels, width, 3, padding=1), relu=nn.ReLU(), pool=nn.MaxPool2d(2)),
        core1=named(conv=nn.Conv2d(width, 2 * width, 3, padding=1), relu=nn.ReLU(), pool=nn.MaxPool2d(2)),
        core2=named(flatten=nn.Flatten(), linear=nn.Linear(features, 8 * width), relu=nn.ReLU()),
        output=named(linear=nn.Linear(8 * width, classes)),
    )


class Residual(nn.Module):
    """y = relu(F(x) + S(x)), F two normalised 3x3 convolutions, S a normalised 1x1 one where shapes change."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = named(
            conv1=nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            norm1=nn.BatchNorm2d(outputs),
            relu=nn.ReLU(),
            conv2=nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            norm2=nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            reduced = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = named(conv=reduced, norm=nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out


def resnet8(input_shape: Sequence[int], classes: int, width: int) -> nn.Sequential:
    """Three residual blocks of `width`, 2 and 4 times `width` channels."""
    stem = nn.Conv2d(input_shape[0], width, 3, padding=1, bias=False)
    return named(
        input=named(conv=stem, norm=nn.BatchNorm2d(width), relu=nn.ReLU()),
        core1=Residual(width, width, stride=1),
        core2=Residual(width, 2 * width, stride=2),
        core3=Residual(2 * width, 4 * width, stride=2),
        output=named(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), linear=nn.Linear(4 * width, classes)),
    )


def named(**layers: nn.Module) -> nn.Sequential:
    """Layers one after the other, by name."""
    return nn.Sequential(OrderedDict(layers))
