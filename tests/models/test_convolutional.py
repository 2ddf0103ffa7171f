"""VGG, MobileNetV2 and DenseNet: what is told by their papers' tables."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smofi.models import densenet121, densenet169, mobilenetv2, vgg11, vgg16
from smofi.models.shortcuts import DenseLayer
from smofi.models.layers import initialise
from smofi.models.shortcuts import InvertedResidual


def shapes(model: nn.Sequential, x: Tensor) -> list[tuple[int, ...]]:
    found = []
    with torch.no_grad():
        for block in model.eval():
            x = block(x)
            found.append(tuple(x.shape[1:]))
    return found


def test_vgg11_on_a_spectrogram() -> None:
    # Configuration A: 64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool; sides 49 and 40.
    assert shapes(vgg11(classes=35, channels=1, width=4), torch.zeros(2, 1, 49, 40)) == [
        (4, 24, 20),
        (8, 12, 10),
        (16, 12, 10),
        (16, 6, 5),
        (32, 6, 5),
        (32, 3, 2),
        (32, 3, 2),
        (32, 1, 1),
        (35,),
    ]


def test_vgg16_has_its_poolings_where_the_paper_has_them() -> None:
    # Configuration D: 2, 2, 3, 3 and 3 convolutions, a pooling behind each run.
    pooled = [hasattr(block, "pool") for block in list(vgg16(classes=10, channels=3, width=2))[:-1]]
    assert [number for number, pool in enumerate(pooled, start=1) if pool] == [2, 4, 7, 10, 13]


def test_the_smallest_image_trains_even_alone() -> None:
    vgg11(classes=10, channels=1, width=2).train()(torch.randn(1, 1, 32, 32)).sum().backward()


def test_mobilenet_stages() -> None:
    # Sandler et al., table 2, at an eighth of the width: 16, 24, 32, 64, 96, 160 and 320 channels.
    found = shapes(mobilenetv2(classes=10, channels=3, width=4), torch.zeros(1, 3, 32, 32))
    channels = [2] + [3] * 2 + [4] * 3 + [8] * 4 + [12] * 3 + [20] * 3 + [40]
    sides = [32] * 3 + [16] * 3 + [8] * 7 + [4] * 4
    assert found[0] == (4, 32, 32)
    assert found[1:-1] == [(count, side, side) for count, side in zip(channels, sides, strict=True)]


def test_an_inverted_residual_adds_its_input_only_where_shapes_agree() -> None:
    def projecting_to_zero(inputs: int, outputs: int, stride: int) -> Tensor:
        block: Any = InvertedResidual(inputs, outputs, expansion=2, stride=stride, norm="batch").eval()
        nn.init.zeros_(block.residual.project.norm.weight)
        return block(x)  # type: ignore[no-any-return]

    x = torch.randn(2, 4, 6, 6)
    assert torch.equal(projecting_to_zero(4, 4, 1), x)
    assert not projecting_to_zero(4, 5, 1).any()
    assert not projecting_to_zero(4, 4, 2).any()


def test_depthwise_weights_keep_the_variance() -> None:
    # He et al. with fan-out: an input feeds 9 outputs of its own channel, so std = sqrt(2 / 9) whatever the width.
    torch.manual_seed(0)
    block: Any = InvertedResidual(64, 64, expansion=6, stride=1, norm="batch")
    initialise(nn.Sequential(block, nn.Linear(64, 2)))
    assert block.residual.depthwise.conv.weight.std().item() == pytest.approx((2 / 9) ** 0.5, rel=0.05)
    assert block.residual.expand.conv.weight.std().item() == pytest.approx((2 / (6 * 64)) ** 0.5, rel=0.05)


def test_a_fresh_densenet_does_not_blow_up_what_passes_through_it() -> None:
    # Statistics of a fresh BatchNorm are 0 and 1: in evaluation nothing is normalised yet.
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = densenet121(classes=10, channels=3, width=16).eval()(torch.randn(4, 3, 32, 32))
    assert outputs.abs().max() < 20


def test_densenet_stages() -> None:
    # Huang et al., table 1: 6, 12, 24 and 16 layers (169: 6, 12, 32 and 32), halved channels and sides between.
    for make, stages in ((densenet121, [6, 12, 24, 16]), (densenet169, [6, 12, 32, 32])):
        channels, side, expected = 8, 16, [(8, 16, 16)]
        for number, layers in enumerate(stages):
            if number:
                channels, side = channels // 2, side // 2
                expected.append((channels, side, side))
            expected += [(channels + 4 * layer, side, side) for layer in range(1, layers + 1)]
            channels += 4 * layers
        assert shapes(make(classes=10, channels=3, width=8), torch.zeros(1, 3, 16, 16)) == [*expected, (10,)]


def test_a_dense_layer_passes_on_what_it_was_given() -> None:
    x = torch.randn(2, 6, 5, 5)
    out = DenseLayer(6, growth=3, norm="batch")(x)
    assert torch.equal(out[:, :6], x)
    assert out.shape == (2, 9, 5, 5)
