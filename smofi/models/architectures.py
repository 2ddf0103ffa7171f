"""All networks: what they are made of, those without shortcuts, those with shortcuts, and the transformer."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from smofi.errors import InputError, check_count, refuse
from smofi.models.dropout import Dropout
from smofi.models.known import NORM, check_image_shape, check_vector_shape, parse_norm


def initialise(model: nn.Sequential, convolution_fan: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Sequential:
    """Draw initial weights by He's rule, in place; biases start at zero, normalisations stay the identity.
    He et al., "Delving deep into rectifiers", ICCV 2015.

    With "fan_out" a convolution keeps the size of gradients, with "fan_in" that of what passes forward.
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


def groups_for(channels: int) -> int:
    """Return the most groups, up to eight, that divide the channels and leave at least two channels in each.

    A group of one channel would be instance normalisation, which forgets how strong each feature was.
    """
    return max((groups for groups in range(1, min(8, channels // 2) + 1) if channels % groups == 0), default=1)


def normalisation(kind: str, channels: int) -> nn.Module:
    """Make a BatchNorm or a GroupNorm over `channels`."""
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


def check_sizes(classes: int, **others: int) -> None:
    """Refuse fewer than two classes, and other sizes below one."""
    check_count("classes", classes, low=2)
    for name, size in others.items():
        check_count(name, size)


def layers(**named: nn.Module) -> nn.Sequential:
    """Join layers that run one after the other, by their names."""
    return nn.Sequential(OrderedDict(named))


def convolution(
    inputs: int, outputs: int, *, size: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    """Make a convolution that keeps the image's sides at stride 1; no bias where a normalisation follows."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=bias)


def classifier(inputs: int, classes: int) -> OrderedDict[str, nn.Module]:
    """Make the layers of an output block: the mean over the image, then a linear layer."""
    return OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), linear=nn.Linear(inputs, classes))


def stem(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    """Make the input block of networks for small images: a 3x3 convolution at full resolution, normalised."""
    return layers(conv=convolution(inputs, outputs, size=3), norm=normalisation(norm, outputs), relu=nn.ReLU())


def chain(blocks: list[nn.Module]) -> nn.Sequential:
    """Join blocks by their names: input, core1, core2, ..., output."""
    names = ["input", *(f"core{number}" for number in range(1, len(blocks) - 1)), "output"]
    return nn.Sequential(OrderedDict(zip(names, blocks, strict=True)))


# --------------------------------------------------------------------------------------------------------------------
# Layers one after the other: a perceptron, and a small network in the manner of LeNet.


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
    """Make a VGG. Stage s has `stages[s]` convolutions and a pooling; the first convolution is the input block."""
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


# --------------------------------------------------------------------------------------------------------------------
# Residual networks of basic blocks: He et al., "Deep residual learning for image recognition", CVPR 2016.


class BasicBlock(nn.Module):
    """Compute two 3x3 convolutions beside a shortcut: y = relu(F(x) + S(x))."""

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
    """Make a ResNet. Stage s has `stages[s]` basic blocks of width * 2**s channels; all but stage 0 halve the image."""
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
    """Expand, convolve each channel by itself, project without ReLU; the input is added where shapes agree."""

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
    """`growth` new features from all those before, which it passes on beside them: y = [x, F(x)]."""

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


def densenet(stages: Sequence[int], *, classes: int, channels: int, width: int, norm: str) -> nn.Sequential:
    """Make a DenseNet. Stage s has `stages[s]` dense layers; between stages a transition halves channels and image.

    In the form for CIFAR, whose stem is a single 3x3 convolution at full resolution. A layer grows by width // 2.
    """
    check_sizes(classes, channels=channels)
    growth = check_count("width", width, low=2) // 2
    blocks: list[nn.Module] = [layers(conv=convolution(channels, width, size=3))]
    inputs = width
    for stage, count in enumerate(stages):
        if stage > 0:
            conv = convolution(inputs, inputs // 2, size=1)
            blocks.append(layers(norm=normalisation(norm, inputs), relu=nn.ReLU(), conv=conv, pool=nn.AvgPool2d(2)))
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


# --------------------------------------------------------------------------------------------------------------------
# A transformer that predicts the next character: FedNAR's, which the paper follows for Shakespeare.
#
# Li et al., "FedNAR: federated optimization with normalized annealing regularization", NeurIPS 2023. Its layers are
# those of Vaswani et al., "Attention is all you need", NeurIPS 2017, with normalisation behind each sublayer. Positions
# are learned, each one sees all others, and nothing is normalised behind the last layer.

HEADS, LAYERS, DROPOUT = 4, 6, 0.1


class Embedding(nn.Module):
    """Embed tokens, as the input block: each token's vector, times sqrt(width), plus that of its position."""

    def __init__(self, vocabulary: int, *, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        return vectors + self.positions.weight[: tokens.shape[1]]


class Attention(nn.Module):
    """Let every position look at all others: softmax(Q K^T / sqrt(d)) V in each of the heads.

    Written out as products of matrices, which are counted in a model's costs on every device.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.dropout = Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(2, 3)
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out


class EncoderLayer(nn.Module):
    """Compute a core block: x = norm(x + attention(x)), then x = norm(x + feed-forward(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(width), nn.LayerNorm(width)
        self.forward1, self.forward2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout, self.dropout1, self.dropout2 = Dropout(DROPOUT), Dropout(DROPOUT), Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout1(self.attention(x)))
        inner = self.dropout(self.forward1(x).relu())
        out: Tensor = self.norm2(x + self.dropout2(self.forward2(inner)))
        return out


class NextToken(nn.Module):
    """Compute the output block: the logits of the token that follows, read at the last position."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x[:, -1])
        return out


def transformer(classes: int, input_shape: Sequence[int], width: int = 128) -> nn.Sequential:
    """Six encoder layers of four heads as core blocks, for int64 tokens `[batch, length]`; `classes` tokens are known.

    Vectors have `width` numbers, a multiple of the four heads; between the two feed-forward layers it is four times as
    many. 1,220,432 parameters for 80 characters, as FedNAR's program has them.

    >>> len(transformer(classes=80, input_shape=(80,), width=8)) - 2
    6
    """
    length = check_vector_shape(input_shape, "tokens")
    check_count("classes", classes, low=2)
    if check_count("width", width) % HEADS:
        refuse("width", width, f"a multiple of {HEADS}, the number of attention heads")
    core = [EncoderLayer(width) for _ in range(LAYERS)]
    model = chain([Embedding(classes, length=length, width=width), *core, NextToken(width, classes)])
    # Initial weights are torch's own, as in FedNAR's program. For attention, torch draws queries, keys and values as
    # one matrix by Glorot's rule, and leaves biases at zero.
    for layer in core:
        attention = layer.attention
        for linear in (attention.query, attention.key, attention.value):
            bound = math.sqrt(6 / (width + 3 * width))  # sqrt(6 / (in + out))
            nn.init.uniform_(linear.weight, -bound, bound)
            nn.init.zeros_(linear.bias)
        nn.init.zeros_(attention.output.bias)
    return model
