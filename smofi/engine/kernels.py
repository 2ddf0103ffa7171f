"""Which convolution kernels to use: a rule, not a measurement, so that the same run gives the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL_BATCH, SMALL_IMAGE = 8, 16 * 16


@contextmanager
def convolutions(batch_size: int, pixels: float) -> Iterator[None]:
    """On the CPU, torch's own convolutions for a handful of tiny images, where oneDNN's cost per call outweighs its
    speed (1.3 to 2 times on 8x8 and 14x14 images); whatever torch prefers otherwise."""
    before = torch._C._get_mkldnn_enabled()
    small = batch_size <= SMALL_BATCH and pixels <= SMALL_IMAGE
    torch._C._set_mkldnn_enabled(before and not small)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
