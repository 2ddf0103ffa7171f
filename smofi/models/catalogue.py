"""The models known by name: what each is, which options it knows, and what it takes. None is built here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smofi.errors import check_choice, refuse
from smofi.imported import names_in
from smofi.later import function_later
from smofi.models.custom import is_custom

if TYPE_CHECKING:
    from torch import nn

# --------------------------------------------------------------------------------------------------------------------
# The input shapes that models accept.


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


# --------------------------------------------------------------------------------------------------------------------
# The models known by name: what each is, which options it knows, and what it takes. None is built here.

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


def _shaped(family: str, name: str) -> Callable[..., nn.Sequential]:
    """A model whose layers depend on the whole input shape."""
    make = function_later(f"smofi.models.{family}", name)
    return lambda input_shape, classes, **options: make(classes, input_shape, **options)


def _image(family: str, name: str, smallest: int = 8) -> Callable[..., nn.Sequential]:
    """A model for images of any size from `smallest` up, which needs to know only their channels."""
    make = function_later(f"smofi.models.{family}", name)

    def adapted(input_shape: Sequence[int], classes: int, **options: Any) -> nn.Sequential:
        channels, _, _ = check_image_shape(input_shape, smallest=smallest)
        model: nn.Sequential = make(classes, channels, **options)
        return model

    return adapted


VGG = 32
"""Its five poolings halve the sides, rounding down: 32 is the least that leaves one pixel."""

MODELS: dict[str, Entry] = {
    "mlp": Entry("linear layers, for samples that are vectors", _shaped("mlp", "mlp"), ("width",), (64,)),
    "cnn": Entry(
        "two convolutions and two linear layers, normalised only with --norm; images from 4x4",
        _shaped("cnn", "cnn"),
        input_shape=(1, 8, 8),
    ),
    "resnet8": Entry("residual network for small images, from 8x8", _image("resnet", "resnet8"), input_shape=(1, 8, 8)),
    "resnet18": Entry("residual network, 3x3 stem, no max-pooling; images from 8x8", _image("resnet", "resnet18")),
    "resnet34": Entry("resnet18 with twice as many blocks; images from 8x8", _image("resnet", "resnet34")),
    "vgg11": Entry(
        "normalised convolutions and one linear layer; images from 32x32", _image("vgg", "vgg11", smallest=VGG)
    ),
    "vgg16": Entry("vgg11 with more convolutions; images from 32x32", _image("vgg", "vgg16", smallest=VGG)),
    "mobilenetv2": Entry("inverted residuals, for weak devices; images from 8x8", _image("mobilenet", "mobilenetv2")),
    "densenet121": Entry("densely connected layers, each a block; images from 8x8", _image("densenet", "densenet121")),
    "densenet169": Entry("densenet121 with more layers; images from 8x8", _image("densenet", "densenet169")),
    "transformer": Entry(
        "encoder layers that predict the next character of a text",
        _shaped("transformer", "transformer"),
        ("width",),
        (80,),
        80,
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

    >>> options_of("mlp"), options_of("python:mine:network")
    (('width',), ('width', 'norm'))
    """
    return OPTIONS if is_custom(check_model_name(name)) else MODELS[name].options
