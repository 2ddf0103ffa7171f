"""Build a model from its name, once it is sure to fit into memory."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from smofi.errors import check_count, check_seed, refuse, refuse_unwanted
from smofi.memory import as_text, refusing, room
from smofi.models.known import MODELS, check_model_name, is_custom, options_of
from smofi.seeds import generator
from smofi.spec import describe, failed, import_function

BYTES = 4
SMALL = 2**27
"""Parameters up to which a model is built without asking for memory."""


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
    """Build a model by name, its initial weights a function of the seed. Torch's own random state is left as it was.

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
    if is_custom(name):
        make = partial(_custom, name, input_shape, classes, options)
    else:
        make = partial(MODELS[name].make, input_shape, classes, **options)
        _check_size("model" if width is None else "width", name if width is None else width, make, copies)
    with torch.random.fork_rng(devices=[]), refusing(f"model={name!r}"):
        # Only the CPU's generator: torch.manual_seed would also reseed every GPU, which is not forked here.
        torch.default_generator.manual_seed(int(generator(seed, "model").integers(2**63)))
        return make()


def _custom(name: str, input_shape: Sequence[int], classes: int, options: dict[str, Any]) -> nn.Sequential:
    """Call the user's function, whose module may lie in the current folder."""
    function = import_function("model", name)
    arguments = {"input_shape": tuple(input_shape), "classes": classes, **options}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        refuse("model", name, f"a function that can be called with {given}, but it is {describe(function)}: {error}")
    except ValueError:
        pass  # written in C, with nothing known about its parameters
    try:
        model = function(**arguments)
    except Exception as error:
        raise failed("model", name, "calling it", error) from error
    if not isinstance(model, nn.Sequential):
        accepted = "an nn.Sequential of blocks (smofi.blocks makes one)"
        refuse("model", name, f"{accepted}, but it returned {type(model).__name__}")
    return model


# --------------------------------------------------------------------------------------------------------------------
# How large a model would be, counted before memory is taken for it.


class _Unfilled(TorchFunctionMode):
    """Leave tensors as they are where initial weights would be drawn."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function.__name__)
        if name.endswith("_") and not name.startswith("_"):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def _check_size(field: str, value: Any, make: partial[nn.Sequential], copies: int) -> None:
    """Refuse a model, by the setting to blame, if `copies` of its weights do not fit into memory together."""
    if torch.get_default_device().type == "meta":
        return
    left = room()
    accepted = f"a model that fits into the {left.words}"
    try:
        with torch.device("meta"), _Unfilled():
            count = sum(parameter.numel() for parameter in make().parameters())
    except (RuntimeError, OverflowError, TypeError):  # what torch cannot count
        refuse(field, value, f"{accepted}, but it would have more than 2^60 parameters")
    if count > SMALL and not left.holds(copies * BYTES * count):
        times = f"{copies} copies of " if copies > 1 else ""
        takes = as_text(copies * BYTES * count)
        refuse(field, value, f"{accepted}, but {times}{count:,} parameters x {BYTES} bytes = {takes}")
