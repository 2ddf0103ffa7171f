"""Handwritten digits, 8x8, inside scikit-learn: Alpaydin and Kaynak, UCI repository, 1998. Nothing is downloaded."""

from __future__ import annotations

import torch

from smofi.data.decoded import Decoded, Part
from smofi.seeds import generator

TRAIN_SIZE = 1437  # leaves 360 of 1,797 for the test


def read_digits() -> Decoded:
    """1,437 images to train on and 360 to test on, the same ones in every run whatever its seed.

    >>> read_digits().test.inputs.shape
    (360, 8, 8, 1)
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    bunch = load_digits()
    order = torch.from_numpy(generator(0, "digits split").permutation(len(bunch.target)))
    images = torch.from_numpy(bunch.images).to(torch.float32).unsqueeze(-1)[order] / 16
    labels = torch.from_numpy(bunch.target).to(torch.int64)[order].numpy()
    seen = images[:TRAIN_SIZE]
    scaled = ((images - seen.mean()) / seen.std()).numpy()
    train = Part(scaled[:TRAIN_SIZE], labels[:TRAIN_SIZE])
    test = Part(scaled[TRAIN_SIZE:], labels[TRAIN_SIZE:])
    return Decoded("image", train, test, classes=tuple("0123456789"), standardise=False)
