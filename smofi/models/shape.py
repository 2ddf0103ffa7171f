"""The input shapes image models accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smofi.errors import refuse


def check_image_shape(shape: Any, *, smallest: int) -> tuple[int, int, int]:
    """(channels, height, width), with sides of at least `smallest`.

    >>> check_image_shape([1, 28, 28], smallest=8)
    (1, 28, 28)
    """
    accepted = f"(channels, height, width) with height and width >= {smallest}"
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) != 3:
        refuse("input_shape", shape, accepted)
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in shape):
        refuse("input_shape", shape, accepted)
    channels, height, width = shape
    if channels < 1 or min(height, width) < smallest:
        refuse("input_shape", shape, accepted)
    return channels, height, width
