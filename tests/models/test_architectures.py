"""What tells the models' blocks apart; sizes and costs are compared with published ones elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smofi.models import build, densenet121, mobilenetv2, resnet8, vgg11
from smofi.models.architectures import DenseLayer, InvertedResidual, initialise


def shapes(model: nn.Sequential, x: Tensor) -> list[tuple[int, ...]]:
    found = []
    with torch.no_grad():
        for block in model.eval():
            x = block(x)
            found.append(tuple(x.shape[1:]))
    return found


def test_a_residual_block_adds_its_shortcut() -> None:
    model: Any = resnet8(classes=10, channels=1)
    assert shapes(model, torch.zeros(2, 1, 9, 13)) == [(16, 9, 13), (16, 9, 13), (32, 5, 7), (64, 3, 4), (10,)]
    assert [isinstance(block.shortcut, nn.Identity) for block in list(model)[1:4]] == [True, False, False]
    nn.init.zeros_(model[1].residual.norm2.weight)
    x = torch.randn(2, 16, 8, 8)
    torch.testing.assert_close(model[1](x), x.relu())


def test_vgg_pools_as_the_paper_does_and_takes_a_single_pixel() -> None:
    # Configuration A: 64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool; sides 49 and 40.
    assert shapes(vgg11(classes=35, channels=1, width=4), torch.zeros(2, 1, 49, 40)) == [
        *[(4, 24, 20), (8, 12, 10), (16, 12, 10), (16, 6, 5)],
        *[(32, 6, 5), (32, 3, 2), (32, 3, 2), (32, 1, 1), (35,)],
    ]
    vgg11(classes=10, channels=1, width=2).train()(torch.randn(1, 1, 32, 32)).sum().backward()


def test_mobilenet() -> None:
    # Sandler et al., table 2, at an eighth of the width: 16, 24, 32, 64, 96, 160 and 320 channels.
    found = shapes(mobilenetv2(classes=10, channels=3, width=4), torch.zeros(1, 3, 32, 32))
    channels = [4, 2, *[3] * 2, *[4] * 3, *[8] * 4, *[12] * 3, *[20] * 3, 40]
    sides = [32] * 4 + [16] * 3 + [8] * 7 + [4] * 4
    assert found[:-1] == [(count, side, side) for count, side in zip(channels, sides, strict=True)]
    x = torch.randn(2, 4, 6, 6)
    for outputs, stride, expected in ((4, 1, x), (5, 1, torch.zeros(2, 5, 6, 6)), (4, 2, torch.zeros(2, 4, 3, 3))):
        block: Any = InvertedResidual(4, outputs, expansion=2, stride=stride, norm="batch").eval()
        nn.init.zeros_(block.residual.project.norm.weight)
        assert torch.equal(block(x), expected)  # the input is added only where shapes agree


def test_a_dense_layer_passes_on_what_it_was_given_and_nothing_blows_up() -> None:
    x = torch.randn(2, 6, 5, 5)
    assert torch.equal(DenseLayer(6, growth=3, norm="batch")(x)[:, :6], x)
    # Statistics of a fresh BatchNorm are 0 and 1, so that nothing is normalised yet.
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = densenet121(classes=10, channels=3, width=16).eval()(torch.randn(4, 3, 32, 32))
    assert outputs.abs().max() < 20


def test_initial_weights_are_those_of_he() -> None:
    model: Any = build("resnet8", seed=3, input_shape=(3, 8, 8), classes=10, width=64)
    conv = model[1].residual.conv2.weight  # 64 outputs, 9 places each: std = sqrt(2 / 576)
    assert conv.std().item() == pytest.approx((2 / 576) ** 0.5, rel=0.02)
    linear = model[-1].linear  # 256 features, no ReLU behind it: std = sqrt(1 / 256)
    assert linear.weight.std().item() == pytest.approx(1 / 16, rel=0.05)
    assert linear.bias.abs().max() == 0
    assert all((m.weight == 1).all() and (m.bias == 0).all() for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    # With fan-out, an input feeds 9 outputs of its own channel, so std = sqrt(2 / 9) whatever the width.
    torch.manual_seed(0)
    block: Any = InvertedResidual(64, 64, expansion=6, stride=1, norm="batch")
    initialise(nn.Sequential(block, nn.Linear(64, 2)))
    assert block.residual.depthwise.conv.weight.std().item() == pytest.approx((2 / 9) ** 0.5, rel=0.05)
    assert block.residual.expand.conv.weight.std().item() == pytest.approx((2 / (6 * 64)) ** 0.5, rel=0.05)
