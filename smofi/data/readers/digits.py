"""Handwritten digits, 8x8, embedded in the package: Alpaydin and Kaynak, UCI repository, 1998."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from smofi.data.decoded import Decoded, Split
from smofi.seeds import generator

FILE = Path(__file__).parent.parent / "digits" / "digits.csv.gz"
TRAIN_SIZE = 1437  # leaves 360 of 1,797 for the test


def read_digits() -> Decoded:
    """Read 1,437 images to train on and 360 to test on, the same ones in every run whatever its seed.

    >>> read_digits().test.inputs.shape
    (360, 8, 8, 1)
    """
    rows = torch.from_numpy(np.loadtxt(FILE, delimiter=",", dtype=np.int64))
    order = torch.from_numpy(generator(0, "digits split").permutation(len(rows)))
    images = rows[order, :64].reshape(-1, 8, 8, 1).to(torch.float32) / 16
    labels = rows[order, 64].numpy()
    seen = images[:TRAIN_SIZE]
    mean, deviation = seen.mean(), seen.std()
    scaled = ((images - mean) / deviation).numpy()
    train = Split(scaled[:TRAIN_SIZE], labels[:TRAIN_SIZE])
    test = Split(scaled[TRAIN_SIZE:], labels[TRAIN_SIZE:])
    # as numbers from 0 to 16, which is what the file has: 16 is a power of 2, so to the bit the same
    moments = {"mean": [16 * mean.item()], "deviation": [16 * deviation.item()]}
    raw_input = {"kind": "array", "shape": [8, 8, 1], "type": "float32", "range": [0, 16], **moments}
    return Decoded("image", train, test, classes=tuple("0123456789"), standardise=False, raw_input=raw_input)
