"""Build a model from its name, once it is sure to fit into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from smofi.errors import check_count, check_seed, refuse, refuse_unwanted
from smofi.memory import as_text, refusing, room
from smofi.models.catalogue import MODELS, check_model_name, options_of
from smofi.models.custom import custom, is_custom
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# How large a model would be, counted before memory is taken for it.


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


# --------------------------------------------------------------------------------------------------------------------
# A model from its name.


def build(
    name: str,
    *,
    seed: int,
    input_shape: Sequence[int],
    classes: int,
    width: int | None = None,
    norm: str | None = None,
    copies: int = 1,
) -> nn.Sequential:
    """A model by name, its initial weights a function of the seed. Torch's own random state is left as it was.

    "python:module:function" calls function(input_shape=..., classes=...) of the user's module, with width and norm
    too where they are given. Any other model is refused before it is built, if memory has no room for `copies`
    of its weights, one by default.

    >>> len(build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, norm="group(2)"))
    5
    """
    check_model_name(name)
    check_seed("seed", seed)
    check_count("copies", copies)
    options = {key: value for key, value in (("width", width), ("norm", norm)) if value is not None}
    for key, value in options.items():
        if key not in options_of(name):
            refuse_unwanted(key, value, f"{name} has no such option")
    if not is_custom(name):
        make = MODELS[name].make
        sizes = [*input_shape, classes] if isinstance(input_shape, Sequence) else []
        check_size(name, partial(make, input_shape, classes, **options), sizes, width, copies)
    with torch.random.fork_rng(devices=[]), refusing(f"model={name!r}"):
        # Only the CPU's generator: torch.manual_seed would also reseed every GPU, which is not forked here.
        torch.default_generator.manual_seed(int(generator(seed, "model").integers(2**63)))
        if is_custom(name):
            return custom(name, input_shape=tuple(input_shape), classes=classes, **options)
        return MODELS[name].make(input_shape, classes, **options)
