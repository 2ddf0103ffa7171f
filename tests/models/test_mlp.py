from __future__ import annotations

import torch

from smofi.models import build


def test_shapes_and_number_of_parameters_by_hand() -> None:
    model = build("mlp", seed=0, input_shape=(13,), classes=3, width=10)
    assert sum(p.numel() for p in model.parameters()) == (13 * 10 + 10) + 2 * (10 * 10 + 10) + (10 * 3 + 3)
    assert [tuple(block(torch.zeros(2, size)).shape) for block, size in zip(model, (13, 10, 10, 10), strict=True)] == [
        (2, 10),
        (2, 10),
        (2, 10),
        (2, 3),
    ]


def test_its_own_width_is_128() -> None:
    assert build("mlp", seed=0, input_shape=(13,), classes=3)[0].linear.weight.shape == (128, 13)
