"""Rows that fill up a pass: copies of the last client, of which nothing is left."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.padding import NONE, PADDINGS, Padding, repeat_last
from smofi.flat import Layout


def test_each_padding_serves_wherever_a_cheaper_one_does() -> None:
    assert sorted(PADDINGS) == list(PADDINGS)
    for cheap, dear in pairwise(PADDINGS):
        widths = [dear.width(clients) for clients in range(1, 40)]
        assert all(cheap.width(width) == width for width in widths)
        assert all(width >= clients for clients, width in enumerate(widths, 1))


def test_a_full_pass_is_not_copied() -> None:
    rows = torch.zeros(4, 3)
    assert repeat_last(rows, 4) is rows


@pytest.mark.parametrize("count", [1, 3])
def test_rows_lie_in_memory_as_before(count: int) -> None:
    images = torch.arange(count * 120.0).reshape(count, 2, 4, 5, 3).permute(0, 1, 4, 2, 3)
    padded = repeat_last(images, 5)
    assert padded.stride() == images.stride()
    assert torch.equal(padded, torch.cat([images, images[-1:].expand(5 - count, *images.shape[1:])]))
    wide = torch.arange(count * 8.0).reshape(count, 8)[:, :5]
    assert repeat_last(wide, 5).stride() == (8, 1)
    assert torch.equal(repeat_last(wide, 5)[:count], wide)


def inside(rows: Tensor) -> Tensor:
    """The same rows amid others, to see whether those are touched."""
    amid = torch.full((len(rows) + 8, rows.shape[1] + 2), 7.0, dtype=rows.dtype)
    amid[4:-4, 1:-1] = rows
    return amid


def test_nothing_of_others_is_touched_and_own_numbers_are_those_without_padding() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3)).double()
    layout = Layout.of(model)
    weights, statistics = (row.repeat(3, 1) for row in layout.pack(model))
    weights *= 1 + 0.05 * torch.randn_like(weights)
    inputs, targets = torch.randn(3, 5, 1, 8, 8).double(), torch.randint(3, (3, 5))
    outcomes = []
    for padding in (NONE, Padding(8, 8)):
        three = [inside(rows) for rows in (weights, statistics, torch.zeros_like(weights))]
        before = [rows.clone() for rows in three]
        many = ClientsAtOnce(model, layout, cross_entropy, padding=padding)
        losses = many.backward(*(rows[4:-4, 1:-1] for rows in three), inputs, targets)
        for rows, old in zip(three, before, strict=True):
            rows_inside = rows[4:-4, 1:-1].clone()
            rows[4:-4, 1:-1] = old[4:-4, 1:-1]
            assert torch.equal(rows, old)
            rows[4:-4, 1:-1] = rows_inside
        assert torch.equal(three[0], before[0])
        assert not torch.equal(three[1], before[1])
        assert losses.shape == (3,)
        outcomes.append(torch.cat([*(rows[4:-4, 1:-1] for rows in three), losses[:, None]], dim=1))
    assert (outcomes[0] - outcomes[1]).abs().max() < 1e-12
