"""How large a model would be, counted before memory is taken for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from smofi.errors import refuse
from smofi.memory import as_text, room

BYTES = 4
WIDEST, PER_WIDTH = 128, 5200
"""The largest default width; and no model here has more parameters than (5,200 + numbers in a sample + classes) width²:
resnet34 comes nearest."""

SMALL = 2**27
"""Parameters up to which nothing is counted: what that takes to import lasts for seconds."""


class _Unfilled(TorchFunctionMode):
    """Leaves tensors as they are, where initial weights would be drawn."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function.__name__)
        if name.endswith("_") and not name.startswith("_"):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def check_size(
    name: str, make: Callable[[], nn.Sequential], sizes: Sequence[int], width: int | None, copies: int
) -> None:
    """Refuse a model if `copies` of its weights do not fit into memory together; `sizes` are those it is made for."""
    if not _may_be_large(sizes, width) or torch.get_default_device().type == "meta":
        return
    field, value = ("model", name) if width is None else ("width", width)
    left = room()
    accepted = f"a model that fits into the {left.words}"
    try:
        with torch.device("meta"), _Unfilled():
            count = sum(parameter.numel() for parameter in make().parameters())
    except (RuntimeError, OverflowError, TypeError):  # what torch cannot count
        refuse(field, value, f"{accepted}, but it would have more than 2^60 parameters")
    if not left.holds(copies * BYTES * count):
        times = f"{copies} copies of " if copies > 1 else ""
        takes = as_text(copies * BYTES * count)
        refuse(field, value, f"{accepted}, but {times}{count:,} parameters x {BYTES} bytes = {takes}")


def _may_be_large(sizes: Sequence[Any], width: Any) -> bool:
    """Whether it is worth counting; what is no number is refused by the model itself."""
    numbers = [WIDEST if width is None else width, *sizes]
    if not sizes or not all(isinstance(number, int) and number > 0 for number in numbers):
        return False
    widest, *sides, classes = map(int, numbers)
    return widest**2 * (PER_WIDTH + math.prod(sides) + classes) > SMALL
