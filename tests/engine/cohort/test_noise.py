"""Dropout's masks are a function of (seed, round, client, step, layer), however the step is executed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from smofi.models.dropout import Dropout, step_keys
from smofi.seeds import generator

WIDTH, BATCH = 24, 4


class Watch(nn.Module):
    """Passes on what it gets, and keeps which of it is zero."""

    seen: list[tuple[int, Tensor]] = []  # noqa: RUF012  # shared on purpose: models are copied

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.seen.append((self.place, x.detach() == 0))
        return x


def masks(method: str, clients: int, plain: bool = True, **settings: Any) -> list[tuple[int, Tensor]]:
    """The masks of a run, layer by layer in the order they were drawn; the checks before it are left out."""
    layer = nn.Dropout if plain else Dropout
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Sequential(nn.Linear(3, WIDTH), layer(0.5), Watch(0)),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), layer(0.5), Watch(1)),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), layer(0.5), Watch(2), nn.Linear(WIDTH, 3)),
    ).double()
    data = [(torch.randn(2 * BATCH, 3).double(), torch.arange(2 * BATCH) % 3) for _ in range(clients)]
    session = smofi.prepare(
        model, data, method=method, rounds=2, participation=1.0, local_epochs=1, batch_size=BATCH, seed=5, **settings
    )
    Watch.seen.clear()
    session.train()
    return list(Watch.seen)


def expected(layer: int, client: int, round: int, step: int) -> Tensor:
    """The zeros that dropout leaves, from what its mask is said to depend on and nothing else."""
    noise = int(generator(5, "noise", round, client).integers(2**63, size=2)[step])
    alone = Dropout(0.5)
    alone.layer, alone.keys = layer, step_keys(noise, BATCH)
    return alone(torch.ones(BATCH, WIDTH)) == 0


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("cut", [0, 1, (0, 1)])
@pytest.mark.parametrize("wire", [None, lambda tensor, direction, client: tensor])
def test_masks_follow_from_seed_round_client_step_and_layer(plain: bool, cut: Any, wire: Any) -> None:
    drawn = iter(masks("smofi", 3, plain, cut=cut, wire=wire))
    for round in range(2):
        for step in range(2):
            for client in range(3):
                for layer in range(3):
                    place, zeros = next(drawn)
                    assert place == layer
                    assert torch.equal(zeros, expected(layer, client, round, step))
    assert next(drawn, None) is None


def test_a_merged_batch_has_the_masks_of_its_clients() -> None:
    drawn = masks("mergesfl", 3, cut=0)
    by_layer = {layer: [zeros for place, zeros in drawn if place == layer] for layer in range(3)}
    for tick, (round, step) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        for client in range(3):
            rows = slice(client * BATCH, (client + 1) * BATCH)
            assert torch.equal(by_layer[0][3 * tick + client], expected(0, client, round, step))
            assert torch.equal(by_layer[1][tick][rows], expected(1, client, round, step))
            assert torch.equal(by_layer[2][tick][rows], expected(2, client, round, step))


def test_the_result_keeps_the_users_own_layers() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 3))
    x, y = torch.randn(16, 3), torch.arange(16) % 3
    result = smofi.train(model, [(x, y)], rounds=1, participation=1.0, batch_size=8)
    assert type(result.model[1]) is nn.Dropout  # type: ignore[index]
    assert type(model[1]) is nn.Dropout
