"""The models known by name: what each is, which options it knows, and what it takes. None is built here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smofi.errors import check_choice, check_count, refuse
from smofi.later import function_later
from smofi.spec import PREFIX, build_one, names_in

if TYPE_CHECKING:
    from torch import nn

OPTIONS = ("width", "norm")


@dataclass(frozen=True)
class Entry:
    """Describe a model: `make(input_shape, classes, **options)`, and which options it knows.

    `input_shape` and `classes` are those it is listed with.
    """

    description: str
    make: Callable[..., nn.Sequential]
    options: tuple[str, ...] = OPTIONS
    input_shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10


def check_image_shape(shape: Any, *, smallest: int) -> tuple[int, int, int]:
    """Return (channels, height, width); refuse sides below `smallest`."""
    if not _are_counts(shape, 3) or min(shape[1:]) < smallest:
        refuse("input_shape", shape, f"(channels, height, width) with height and width >= {smallest}")
    return shape[0], shape[1], shape[2]


def check_vector_shape(shape: Any, what: str) -> int:
    """Return the length of a sample that is a vector, of features or of tokens."""
    if not _are_counts(shape, 1):
        refuse("input_shape", shape, f"({what},), a single whole number >= 1")
    return int(shape[0])


def _are_counts(shape: Any, length: int) -> bool:
    sequence = isinstance(shape, Sequence) and len(shape) == length
    return sequence and all(type(size) is int and size > 0 for size in shape)


def _shaped(name: str) -> Callable[..., nn.Sequential]:
    """Make a model whose layers depend on the whole input shape."""
    make = function_later("smofi.models", name)
    return lambda input_shape, classes, **options: make(classes, input_shape, **options)


def _image(name: str, smallest: int = 8) -> Callable[..., nn.Sequential]:
    """Make a model for images of any size from `smallest` up, which needs to know only their channels."""
    make = function_later("smofi.models", name)

    def adapted(input_shape: Sequence[int], classes: int, **options: Any) -> nn.Sequential:
        channels, _, _ = check_image_shape(input_shape, smallest=smallest)
        model: nn.Sequential = make(classes, channels, **options)
        return model

    return adapted


MODELS: dict[str, Entry] = {
    "mlp": Entry("linear layers, for samples that are vectors", _shaped("mlp"), ("width",), (64,)),
    "cnn": Entry(
        "two convolutions and two linear layers, normalised only with --norm; images from 4x4",
        _shaped("cnn"),
        input_shape=(1, 8, 8),
    ),
    "resnet8": Entry("residual network for small images, from 8x8", _image("resnet8"), input_shape=(1, 8, 8)),
    "resnet18": Entry("residual network, 3x3 stem, no max-pooling; images from 8x8", _image("resnet18")),
    "resnet34": Entry("resnet18 with twice as many blocks; images from 8x8", _image("resnet34")),
    # five poolings halve the sides, rounding down: 32 is the least that leaves one pixel
    "vgg11": Entry("normalised convolutions and one linear layer; images from 32x32", _image("vgg11", smallest=32)),
    "vgg16": Entry("vgg11 with more convolutions; images from 32x32", _image("vgg16", smallest=32)),
    "mobilenetv2": Entry("inverted residuals, for weak devices; images from 8x8", _image("mobilenetv2")),
    "densenet121": Entry("densely connected layers, each a block; images from 8x8", _image("densenet121")),
    "densenet169": Entry("densenet121 with more layers; images from 8x8", _image("densenet169")),
    "transformer": Entry(
        "encoder layers that predict the next character of a text", _shaped("transformer"), ("width",), (80,), 80
    ),
}


def is_custom(name: Any) -> bool:
    """Tell whether a model's name says that it is the user's own."""
    return isinstance(name, str) and name.startswith(PREFIX)


def check_model_name(name: Any) -> str:
    """Refuse a model's name that is neither known nor "python:module:function"; importing that may still fail.

    >>> check_model_name("python:mine:network")
    'python:mine:network'
    """
    if is_custom(name):
        names_in("model", name)
        return str(name)
    return check_choice("model", name, MODELS)


def takes(name: str) -> str | None:
    """Return the kind of input a model is for: image, text or vector; None for the user's own, which may take any.

    >>> takes("resnet18"), takes("mlp"), takes("transformer")
    ('image', 'vector', 'text')
    """
    if is_custom(name):
        return None
    return "text" if name == "transformer" else "image" if len(MODELS[name].input_shape) == 3 else "vector"


def options_of(name: str) -> tuple[str, ...]:
    """Return the options of `build` that a model knows; the user's own may know any.

    >>> options_of("mlp"), options_of("python:mine:network")
    (('width',), ('width', 'norm'))
    """
    return OPTIONS if is_custom(check_model_name(name)) else MODELS[name].options


# --------------------------------------------------------------------------------------------------------------------
# The option `norm`: batch, group, or group(n) for n groups.

NORM = "group(2)"


def parse_norm(text: str) -> str | int | None:
    """Return the number of groups; "group" where each layer has its own number, None for BatchNorm."""

    def batch() -> None:
        return None

    def group(n: int | None = None) -> str | int:
        return "group" if n is None else check_count("n", n)

    builders: dict[str, Any] = {"batch": batch, "group": group}
    groups: str | int | None = build_one("norm", text, builders, NORM)
    return groups
