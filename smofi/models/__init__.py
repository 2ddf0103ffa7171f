"""The models by name. Every model is a sequence of blocks, so every model splits at every block.

The first block is the input block, the last the output block, those between are the core blocks a cut counts.

mlp, cnn, resnet, vgg, mobilenet, densenet, transformer   a file per family
custom     a model of one's own, by python:module:function     blocks    any module as a sequence of blocks
costs      parameters, multiply-accumulates, bytes at a cut    dropout   masks that are a function of the sample
size       whether a model fits into memory, before it is built
layers, norm, shape, initial    what several families share

Public: the names in `__all__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from smofi.errors import check_choice, check_count, check_seed, refuse
from smofi.imported import names_in
from smofi.memory import refusing
from smofi.models.cnn import cnn
from smofi.models.costs import costs
from smofi.models.custom import custom, is_custom
from smofi.models.densenet import densenet121, densenet169
from smofi.models.dropout import Dropout, step_keys
from smofi.models.mlp import mlp
from smofi.models.mobilenet import mobilenetv2
from smofi.models.resnet import resnet8, resnet18, resnet34
from smofi.models.shape import check_image_shape
from smofi.models.size import check_size
from smofi.models.transformer import transformer
from smofi.models.vgg import SMALLEST, vgg11, vgg16
from smofi.seeds import generator

__all__ = [
    "MODELS",
    "Dropout",
    "Entry",
    "build",
    "check_model_name",
    "costs",
    "options_of",
    "step_keys",
    "takes",
    "cnn",
    "densenet121",
    "densenet169",
    "mlp",
    "mobilenetv2",
    "resnet8",
    "resnet18",
    "resnet34",
    "transformer",
    "vgg11",
    "vgg16",
]

OPTIONS = ("width", "norm")


@dataclass(frozen=True)
class Entry:
    """One model: `make(input_shape, classes, **options)`, and which options it knows.

    `input_shape` and `classes` are those it is listed with.
    """

    description: str
    make: Callable[..., nn.Sequential]
    options: tuple[str, ...] = OPTIONS
    input_shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10


def _shaped(make: Callable[..., nn.Sequential]) -> Callable[..., nn.Sequential]:
    """A model whose layers depend on the whole input shape."""
    return lambda input_shape, classes, **options: make(classes, input_shape, **options)


def _image(make: Callable[..., nn.Sequential], smallest: int = 8) -> Callable[..., nn.Sequential]:
    """A model for images of any size from `smallest` up, which needs to know only their channels."""

    def adapted(input_shape: Sequence[int], classes: int, **options: Any) -> nn.Sequential:
        channels, _, _ = check_image_shape(input_shape, smallest=smallest)
        return make(classes, channels, **options)

    return adapted


MODELS: dict[str, Entry] = {
    "mlp": Entry("linear layers, for samples that are vectors", _shaped(mlp), ("width",), (64,)),
    "cnn": Entry(
        "two convolutions and two linear layers, no normalisation; images from 4x4", _shaped(cnn), ("width",), (1, 8, 8)
    ),
    "resnet8": Entry("residual network for small images, from 8x8", _image(resnet8), input_shape=(1, 8, 8)),
    "resnet18": Entry("residual network, 3x3 stem, no max-pooling; images from 8x8", _image(resnet18)),
    "resnet34": Entry("resnet18 with twice as many blocks; images from 8x8", _image(resnet34)),
    "vgg11": Entry("normalised convolutions and one linear layer; images from 32x32", _image(vgg11, SMALLEST)),
    "vgg16": Entry("vgg11 with more convolutions; images from 32x32", _image(vgg16, SMALLEST)),
    "mobilenetv2": Entry("inverted residuals, for weak devices; images from 8x8", _image(mobilenetv2)),
    "densenet121": Entry("densely connected layers, each a block; images from 8x8", _image(densenet121)),
    "densenet169": Entry("densenet121 with more layers; images from 8x8", _image(densenet169)),
    "transformer": Entry(
        "encoder layers that predict the next character of a text", _shaped(transformer), ("width",), (80,), 80
    ),
}


def check_model_name(name: Any) -> str:
    """A model by name, or "python:module:function" for the user's own; whether that can be imported is seen later.

    >>> check_model_name("python:mine:network")
    'python:mine:network'
    """
    if is_custom(name):
        names_in("model", name)
        return str(name)
    return check_choice("model", name, MODELS)


def takes(name: str) -> str | None:
    """The kind of input a model is for: image, text or vector; None for the user's own, which may take any.

    >>> takes("resnet18"), takes("mlp"), takes("transformer")
    ('image', 'vector', 'text')
    """
    if is_custom(name):
        return None
    return "text" if name == "transformer" else "image" if len(MODELS[name].input_shape) == 3 else "vector"


def options_of(name: str) -> tuple[str, ...]:
    """The options of `build` that a model knows; the user's own may know any.

    >>> options_of("cnn"), options_of("python:mine:network")
    (('width',), ('width', 'norm'))
    """
    return OPTIONS if is_custom(check_model_name(name)) else MODELS[name].options


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

    >>> len(build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, norm="group"))
    5
    """
    check_model_name(name)
    check_seed("seed", seed)
    check_count("copies", copies)
    options = {key: value for key, value in (("width", width), ("norm", norm)) if value is not None}
    for key, value in options.items():
        if key not in options_of(name):
            refuse(key, value, f"no {key}: {name} has no such option")
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
