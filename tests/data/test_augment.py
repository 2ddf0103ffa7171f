from __future__ import annotations

import pytest
import torch
from torch import Tensor

from smofi.data.augment import Augment, parse_augment
from smofi.errors import InputError


def one_by_one(images: Tensor, drawn: Tensor, padding: int) -> Tensor:
    """Every image by itself, pixel by pixel, as the definition says."""
    out = torch.zeros_like(images)
    for sample, (down, across, flipped) in enumerate(drawn.tolist()):
        for row in range(images.shape[2]):
            for column in range(images.shape[3]):
                source_column = images.shape[3] - 1 - column if flipped else column
                y, x = row + down - padding, source_column + across - padding
                if 0 <= y < images.shape[2] and 0 <= x < images.shape[3]:
                    out[sample, :, row, column] = images[sample, :, y, x]
    return out


@pytest.mark.parametrize("text", ["crop(2)", "flip", "crop(3)+flip", "flip+crop"])
def test_equals_pixel_by_pixel(text: str) -> None:
    images = torch.randn(9, 3, 6, 5).contiguous(memory_format=torch.channels_last)
    augment = parse_augment(text)
    drawn = augment.draw(2, 9, seed=1, round=2, client=3)
    for step in drawn:
        varied = augment.apply(images, step)
        assert torch.equal(varied, one_by_one(images, step, augment.padding))
        assert varied.is_contiguous(memory_format=torch.channels_last)


def test_draws_depend_on_seed_round_and_client_alone() -> None:
    augment = Augment(padding=4, flips=True)
    drawn = augment.draw(5, 40, seed=0, round=0, client=0)
    assert torch.equal(drawn, augment.draw(5, 40, seed=0, round=0, client=0))
    others = [dict(seed=1, round=0, client=0), dict(seed=0, round=1, client=0), dict(seed=0, round=0, client=1)]
    assert not any(torch.equal(drawn, augment.draw(5, 40, **keys)) for keys in others)
    assert torch.equal(drawn[:2], augment.draw(2, 40, seed=0, round=0, client=0))  # whatever the number of steps
    assert set(drawn[..., :2].flatten().tolist()) == set(range(9))
    assert 60 < int(drawn[..., 2].sum()) < 140  # of 200, half
    assert not Augment(padding=4).draw(5, 40, seed=0, round=0, client=0)[..., 2].any()


@pytest.mark.parametrize("text", ["crop+crop", "turn", "crop(0)", "crop(-1)", "crop(2, 3)", "flip(1)", "", "crop("])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_augment(text)


def test_only_images() -> None:
    with pytest.raises(InputError, match=r"augment needs images, but these samples have shape \(4,\)"):
        Augment(1).apply(torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int64))
