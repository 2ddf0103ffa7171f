"""Residual networks of basic blocks: He et al., "Deep residual learning for image recognition", CVPR 2016."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from smofi.errors import check_count
from smofi.models.layers import chain, classifier, convolution, initialise, stem
from smofi.models.norm import normalisation


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut: y = relu(F(x) + S(x)).

    >>> import torch
    >>> BasicBlock(4, 8, stride=2, norm="batch")(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int, norm: str) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            OrderedDict(
                conv1=convolution(inputs, outputs, size=3, stride=stride),
                norm1=normalisation(norm, outputs),
                relu=nn.ReLU(),
                conv2=convolution(outputs, outputs, size=3),
                norm2=normalisation(norm, outputs),
            )
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                OrderedDict(
                    conv=convolution(inputs, outputs, size=1, stride=stride),
                    norm=normalisation(norm, outputs),
                )
            )
        self.relu = nn.ReLU(inplace=True)  # nothing else reads the sum

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out


def resnet(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Stage s has `stages[s]` basic blocks of width * 2**s channels and, after the first stage, halves the image.

    >>> list(dict(resnet([1, 1], classes=10, channels=3, width=4, norm="group").named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    check_count("classes", classes, low=2)
    check_count("channels", channels)
    check_count("width", width)
    blocks: list[nn.Module] = [stem(channels, width, norm)]
    inputs = width
    for stage, count in enumerate(stages):
        for index in range(count):
            outputs, stride = width * 2**stage, 2 if stage > 0 and index == 0 else 1
            blocks.append(BasicBlock(inputs, outputs, stride=stride, norm=norm))
            inputs = outputs
    return initialise(chain([*blocks, nn.Sequential(classifier(inputs, classes))]))


def resnet8(classes: int, channels: int, width: int = 16, norm: str = "batch") -> nn.Sequential:
    """Three core blocks, for images from 8x8 up.

    >>> len(resnet8(classes=10, channels=1))
    5
    """
    return resnet([1, 1, 1], classes=classes, channels=channels, width=width, norm=norm)


def resnet18(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Eight core blocks, in the form for CIFAR: a 3x3 stem and no max-pooling. Stages of width, 2, 4 and 8 * width.

    11,173,962 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(resnet18(classes=10, channels=3, width=4)) - 2
    8
    """
    return resnet([2, 2, 2, 2], classes=classes, channels=channels, width=width, norm=norm)


def resnet34(classes: int, channels: int, width: int = 64, norm: str = "batch") -> nn.Sequential:
    """Sixteen core blocks, in the form for CIFAR: a 3x3 stem and no max-pooling. Stages of width, 2, 4 and 8 * width.

    21,282,122 parameters for 10 classes and 3 channels, the number published for this form.

    >>> len(resnet34(classes=10, channels=3, width=4)) - 2
    16
    """
    return resnet([3, 4, 6, 3], classes=classes, channels=channels, width=width, norm=norm)
