"""The input shapes that models accept."""

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
    channels, height, width = _whole_numbers(shape, 3, accepted)
    if channels < 1 or min(height, width) < smallest:
        refuse("input_shape", shape, accepted)
    return channels, height, width


def check_vector_shape(shape: Any, what: str) -> int:
    """The length of a sample that is a vector, of features or of tokens.

    >>> check_vector_shape((80,), "tokens")
    80
    """
    accepted = f"({what},), a single whole number >= 1"
    (length,) = _whole_numbers(shape, 1, accepted)
    if length < 1:
        refuse("input_shape", shape, accepted)
    return length


def _whole_numbers(shape: Any, count: int, accepted: str) -> Sequence[int]:
    sequence = isinstance(shape, Sequence) and not isinstance(shape, str) and len(shape) == count
    if not sequence or not all(isinstance(side, int) and not isinstance(side, bool) for side in shape):
        refuse("input_shape", shape, accepted)
    return tuple(shape)
