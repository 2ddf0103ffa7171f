"""What takes long to load is loaded when it is first used, so that help and refusals come at once.

    from smofi.later import np, torch     in modules that a refusal needs: numpy and torch, once they compute something
    load_later(__name__, load="load")     in packages that a refusal passes through: their public names
    function_later(module, name)          in tables of what can be named: a function, once it is called

`tests/cli/test_start.py` names what loads neither torch nor numpy. Elsewhere, both are imported as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["function_later", "load_later", "np", "torch"]


def _module(name: str) -> Any:
    """Stands for a module. What has been asked for once is an attribute like any other, and costs no more."""
    stand_in = ModuleType(name)

    def load(attribute: str) -> Any:
        value = getattr(import_module(name), attribute)
        setattr(stand_in, attribute, value)
        return value

    stand_in.__getattr__ = load  # type: ignore[method-assign]
    return stand_in


if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np, torch = _module("numpy"), _module("torch")


def function_later(module: str, name: str) -> Callable[..., Any]:
    """A function whose module is loaded when it is called.

    >>> function_later("math", "sqrt")(9)
    3.0
    """
    return lambda *args, **kwargs: getattr(import_module(module), name)(*args, **kwargs)


class _Package(ModuleType):
    """A package whose public names are loaded when they are first asked for. `_homes` has the module of each."""

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = self.__dict__[name] = getattr(import_module(self._homes[name]), name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python makes a module that is loaded an attribute of its package: `load` is the function, not its module
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> Iterable[str]:
        return sorted({*self.__dict__, *self._homes})


def load_later(package: str, **names: str) -> None:
    """Make names public in a package, by the module of the package that each list of names is in."""
    module = sys.modules[package]
    module.__dict__["_homes"] = {name: f"{package}.{home}" for home, listed in names.items() for name in listed.split()}
    module.__class__ = _Package
