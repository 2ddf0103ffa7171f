from __future__ import annotations

import pytest
import torch
from torch import nn

from smofi.errors import InputError
from smofi.models import build, cnn


@pytest.mark.parametrize(
    ("shape", "pixels"), [((1, 8, 8), 2 * 2), ((1, 28, 28), 7 * 7), ((3, 32, 32), 8 * 8), ((2, 5, 11), 1 * 2)]
)
def test_shapes_and_number_of_parameters_by_hand(shape: tuple[int, int, int], pixels: int) -> None:
    model = build("cnn", seed=0, input_shape=shape, classes=10)
    convolutions = (9 * shape[0] * 16 + 16) + (9 * 16 * 32 + 32)
    linears = (32 * pixels * 128 + 128) + (128 * 10 + 10)
    assert sum(p.numel() for p in model.parameters()) == convolutions + linears
    x = torch.randn(2, *shape)
    sizes = []
    for block in model:
        x = block(x)
        sizes.append(tuple(x.shape[1:]))
    _, height, width = shape
    assert sizes == [(16, height // 2, width // 2), (32, height // 4, width // 4), (128,), (10,)]


def test_it_has_no_normalisation_and_no_buffers() -> None:
    model = cnn(classes=10, input_shape=(1, 8, 8))
    assert list(model.buffers()) == []
    assert {type(m) for m in model.modules()} == {
        nn.Sequential,
        nn.Conv2d,
        nn.ReLU,
        nn.MaxPool2d,
        nn.Flatten,
        nn.Linear,
    }


def test_width_scales_every_layer() -> None:
    model = cnn(classes=3, input_shape=(1, 8, 8), width=2)
    assert [tuple(p.shape) for p in model.parameters() if p.ndim > 1] == [(2, 1, 3, 3), (4, 2, 3, 3), (16, 16), (3, 16)]


def test_too_small_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"input_shape=\(1, 3, 3\).*>= 4"):
        cnn(classes=10, input_shape=(1, 3, 3))
