"""Handwritten digits, 8x8, inside scikit-learn: Alpaydin and Kaynak, UCI repository, 1998. Nothing is downloaded."""

from __future__ import annotations

import torch

from smofi.data.source import Source
from smofi.seeds import generator

TRAIN_SIZE = 1437  # leaves 360 of 1,797 for the test


def digits() -> Source:
    """1,437 images to train on and 360 to test on, the same ones in every run whatever its seed.

    >>> tuple(digits().test[0].shape)
    (360, 1, 8, 8)
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    order = torch.from_numpy(generator(0, "digits split").permutation(len(bunch.target)))
    images = torch.from_numpy(bunch.images).to(torch.float32).unsqueeze(1)[order] / 16
    labels = torch.from_numpy(bunch.target).to(torch.int64)[order]
    seen = images[:TRAIN_SIZE]
    images = (images - seen.mean()) / seen.std()
    return Source(
        name="digits",
        train=(images[:TRAIN_SIZE].contiguous(), labels[:TRAIN_SIZE].contiguous()),
        test=(images[TRAIN_SIZE:].contiguous(), labels[TRAIN_SIZE:].contiguous()),
        classes=10,
        input_shape=(1, 8, 8),
    )
