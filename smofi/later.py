"""Load what takes long when it is first used, so that help and refusals come at once.

    from smofi.later import np, torch     in modules that a refusal needs: numpy and torch, once they compute something
    load_later(__name__, load="load")     in packages that a refusal passes through: their public names
    function_later(module, name)          in tables of what can be named: a function, once it is called

`tests/cli/test_start.py` names what loads neither torch nor numpy. Elsewhere, both are imported as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["function_later", "load_later", "np", "torch"]


def _fill_later(package: ModuleType, home_of: Callable[[str], str | None]) -> None:
    """Give a module further names, each loaded from its home when it is first asked for, and kept.

    Python calls a module's own `__getattr__` for a name that it has not.
    """

    def load(name: str) -> Any:
        if (home := home_of(name)) is None:
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(package, name, value)
        return value

    package.__getattr__ = load  # type: ignore[method-assign]


def load_later(package: str, **names: str) -> None:
    """Make names public in a package, by the module of the package that each list of names is in.

    No name may be that of its module, which Python puts in its place when the module is loaded.
    """
    homes: Mapping[str, str] = {name: home for home, listed in names.items() for name in listed.split()}
    assert not homes.keys() & set(names), f"{package} has names that are modules, too: {homes.keys() & set(names)}"
    module = sys.modules[package]
    _fill_later(module, lambda name: f"{package}.{homes[name]}" if name in homes else None)
    module.__dir__ = lambda: sorted({*vars(module), *homes})  # type: ignore[method-assign]


def function_later(module: str, name: str) -> Callable[..., Any]:
    """Stand for a function whose module is loaded when it is called.

    >>> function_later("math", "sqrt")(9)
    3.0
    """
    return lambda *args, **kwargs: getattr(import_module(module), name)(*args, **kwargs)


def _module_later(name: str) -> ModuleType:
    stand_in = ModuleType(name)
    _fill_later(stand_in, lambda _: name)
    return stand_in


if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np, torch = _module_later("numpy"), _module_later("torch")
