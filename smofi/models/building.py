"""A model from its name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from smofi.errors import check_count, check_seed, refuse_unwanted
from smofi.memory import refusing
from smofi.models.catalogue import MODELS, check_model_name, options_of
from smofi.models.custom import custom, is_custom
from smofi.models.size import check_size
from smofi.seeds import generator


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
