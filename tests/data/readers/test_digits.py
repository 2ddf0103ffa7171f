from __future__ import annotations

import pytest
import torch

from smofi.data import load
from smofi.errors import InputError


def test_sizes_and_types() -> None:
    source = load("digits")
    (x, y), (test_x, test_y) = source.train.tensors(), source.test.tensors()
    assert (tuple(x.shape), tuple(test_x.shape)) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (len(y), len(test_y)) == (1437, 360)
    assert (x.dtype, y.dtype, test_x.dtype, test_y.dtype) == (torch.float32, torch.int64, torch.float32, torch.int64)
    assert (source.name, source.classes, source.input_shape) == ("digits", 10, (1, 8, 8))


def test_training_pixels_have_mean_zero_and_deviation_one() -> None:
    x, _ = load("digits").train.tensors()
    assert x.mean().item() == pytest.approx(0, abs=1e-5)
    assert x.std().item() == pytest.approx(1, abs=1e-5)


def test_the_split_is_fixed_and_holds_every_image_once() -> None:
    from sklearn.datasets import load_digits

    first, second = load("digits"), load("digits")
    torch.manual_seed(1)
    (images, labels), (test_images, test_labels) = first.train.tensors(), first.test.tensors()
    assert torch.equal(images, second.train.tensors()[0])
    assert torch.equal(test_labels, second.test.labels)

    # Undoing the scaling gives back the 17 grey levels, and with them the original images, in another order.
    both = torch.cat([images, test_images])
    levels = ((both - both.min()) / (both.max() - both.min()) * 16).round().to(torch.int64).reshape(-1, 64)
    every = torch.cat([labels, test_labels]).tolist()
    ours = sorted([*row, label] for row, label in zip(levels.tolist(), every, strict=True))
    bunch = load_digits()
    theirs = sorted([*map(int, row), int(label)] for row, label in zip(bunch.data, bunch.target, strict=True))
    assert ours == theirs


def test_classes_are_balanced() -> None:
    source = load("digits")
    # 174 to 183 images of each digit: a fair split leaves about 144 and 36 of them.
    assert all(125 <= count <= 160 for count in torch.bincount(source.train.labels).tolist())
    assert all(20 <= count <= 53 for count in torch.bincount(source.test.labels).tolist())


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(InputError, match=r"data='digit' is not accepted: .*did you mean 'digits'"):
        load("digit")
