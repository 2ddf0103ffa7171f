"""Costs against sums made by hand and against published numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from smofi.errors import InputError
from smofi.models import build
from smofi.models.costing import Block, Costs, costs, takes_tokens


def on_meta(name: str, *shape: int, classes: int = 10) -> Costs:
    model = build(name, seed=0, input_shape=shape, classes=classes).to("meta")
    return costs(model, shape, takes_tokens(model))


def test_a_small_convolutional_network_by_hand() -> None:
    model = build("cnn", seed=0, input_shape=(1, 8, 8), classes=10)
    counted = costs(model, (1, 8, 8))
    assert counted.blocks == (
        Block("input", 9 * 16 + 16, 9 * 1 * 16 * 64, (16, 4, 4)),
        Block("core1", 9 * 16 * 32 + 32, 9 * 16 * 32 * 16, (32, 2, 2)),
        Block("core2", 128 * 128 + 128, 128 * 128, (128,)),
        Block("output", 128 * 10 + 10, 128 * 10, (10,)),
    )
    assert [cut.bytes for cut in counted.cuts] == [4 * 256, 4 * 128, 4 * 128]
    at = counted.at(1)
    assert at.parameters == pytest.approx((160 + 4640) / (160 + 4640 + 16512 + 1290))
    assert at.macs == pytest.approx((9216 + 73728) / (9216 + 73728 + 16384 + 1280))
    with pytest.raises(InputError, match="cut=3"):
        counted.at(3)


def test_resnet18() -> None:
    # Stages at 32, 16, 8 and 4 pixels a side; each but the first begins with a stride and a projection.
    stem, first = 9 * 3 * 64 * 32**2, 4 * 9 * 64 * 64 * 32**2
    later = [
        9 * c // 2 * c * s**2 + 3 * 9 * c * c * s**2 + c // 2 * c * s**2 for c, s in ((128, 16), (256, 8), (512, 4))
    ]
    counted = on_meta("resnet18", 3, 32, 32)
    assert counted.macs == stem + first + sum(later) + 5120
    # The number in use, 556.65 million, counts two operations more for each number that is normalised.
    normalised = 5 * sum(c * s**2 for c, s in ((64, 32), (128, 16), (256, 8), (512, 4)))
    assert counted.macs + 2 * normalised == 556_651_520
    assert counted.at(8).parameters == pytest.approx(1 - 5130 / 11_173_962)
    assert counted.at(2).bytes == 4 * 64 * 32 * 32


def test_attention_is_counted() -> None:
    # A layer: four projections and two feed-forwards of each of 80 vectors, then scores and mixtures of 80 x 80.
    layer = 80 * (4 * 128**2 + 2 * 128 * 512) + 2 * 80 * 80 * 128
    counted = on_meta("transformer", 80, classes=80)
    assert [block.macs for block in counted.blocks] == [0, *[layer] * 6, 128 * 80]
    assert [block.shape for block in counted.blocks] == [*[(80, 128)] * 7, (80,)]


def test_torchs_own_attention_is_counted_too() -> None:
    model = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 2))
    fast = torch.backends.mha.get_fastpath_enabled()
    layer = 6 * (4 * 16**2 + 2 * 16 * 32) + 2 * 6 * 6 * 16
    assert [block.macs for block in costs(model, (6, 16)).blocks] == [layer, 6 * 16 * 2]
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_on_the_meta_device_it_is_the_same_and_the_model_is_left_as_it_was() -> None:
    model = build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10).train()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    counted = costs(model, (1, 8, 8))
    assert model.training
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert costs(model.to("meta"), (1, 8, 8)) == counted


def test_what_cannot_be_counted_is_said() -> None:
    with pytest.raises(InputError, match=r"block 0 fails on a sample of shape \(5,\)"):
        costs(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), (5,))
    with pytest.raises(InputError, match="block 0 returns a tuple"):
        costs(nn.Sequential(nn.LSTM(4, 3), nn.Linear(3, 2)), (5, 4))
