"""A user's own model by name: "python:module:function" is imported and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smofi.errors import refuse
from smofi.imported import PREFIX, failed, import_function
from smofi.later import torch
from smofi.spec import describe

if TYPE_CHECKING:
    from torch import nn


def is_custom(name: Any) -> bool:
    """Whether a model's name says that it is the user's own.

    >>> is_custom("python:mine:network"), is_custom("resnet18")
    (True, False)
    """
    return isinstance(name, str) and name.startswith(PREFIX)


def custom(name: str, **arguments: Any) -> nn.Sequential:
    """What the function returns for these arguments. Its module may lie in the current folder."""
    function = import_function("model", name)
    _check_arguments(name, function, arguments)
    try:
        model = function(**arguments)
    except Exception as error:
        raise failed("model", name, "calling it", error) from error
    if not isinstance(model, torch.nn.Sequential):
        refuse(
            "model",
            name,
            f"an nn.Sequential of blocks (smofi.blocks makes one), but it returned {type(model).__name__}",
        )
    return model


def _check_arguments(name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        refuse("model", name, f"a function that can be called with {given}, but it is {describe(function)}: {error}")
    except ValueError:
        pass  # written in C, with nothing known about its parameters
