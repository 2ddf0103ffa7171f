"""Every family through the engine, with SMoFi, at a small width; densenet169 is densenet121 with more of the same."""

from __future__ import annotations

import pytest
import torch

import smofi
from smofi.models import build

SIZES = {
    "mlp": (12,),
    "cnn": (1, 8, 8),
    "resnet8": (3, 12, 12),
    "resnet18": (3, 16, 16),
    "resnet34": (3, 8, 8),
    "vgg11": (1, 49, 40),
    "vgg16": (3, 32, 32),
    "mobilenetv2": (3, 16, 16),
    "densenet121": (3, 8, 8),
    "transformer": (10,),
}


def data(shape: tuple[int, ...], tokens: bool, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(size) % 3
    if tokens:
        return torch.randint(3, (size, *shape), generator=generator), labels
    return torch.randn(size, *shape, generator=generator), labels


def train(name: str, norm: str | None, batch_size: int, clients: int = 2) -> smofi.Result:
    shape, tokens = SIZES[name], name == "transformer"
    model = build(name, seed=0, input_shape=shape, classes=3, width=4, norm=norm)
    return smofi.train(
        model,
        [data(shape, tokens, batch_size * (1 + client), seed=client) for client in range(clients)],
        data(shape, tokens, 4, seed=9),
        optimizer="sgd(lr=0.01, momentum=0.9)",
        cut=2,
        rounds=1,
        participation=1.0,
        local_epochs=1,
        batch_size=batch_size,
    )


@pytest.mark.parametrize("name", SIZES)
def test_a_round_of_smofi(name: str) -> None:
    result = train(name, None, batch_size=2)
    (record,) = result.history
    assert record.steps == [1, 2]
    assert not result.diverged
    assert record.loss is not None
    assert all(bool(tensor.isfinite().all()) for tensor in result.model.state_dict().values())


@pytest.mark.parametrize("name", ["vgg11", "mobilenetv2", "densenet121"])
def test_a_round_with_group_normalisation(name: str) -> None:
    assert not train(name, "group", batch_size=2).diverged
