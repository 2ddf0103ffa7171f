"""A user's own function, named in a setting as "python:module:function"."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smofi.errors import InputError, refuse

PREFIX = "python:"


def import_function(setting: str, text: str) -> Callable[..., Any]:
    """Import what `python:module:function` names; modules in the working directory are found first.

    >>> import_function("data", "python:math:sqrt")(9)
    3.0
    """
    module, function = names_in(setting, text)
    if not {"", str(Path.cwd())} & set(sys.path):
        # as `python -m` does, and for good: the function may import more when it is called
        sys.path.insert(0, str(Path.cwd()))
    importlib.invalidate_caches()
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):  # it is there, but not what it needs
            raise failed(setting, text, f"importing {module}", error) from error
        where = f"in the current folder, {Path.cwd()}, or among the installed packages"
        refuse(setting, text, f"a module that can be imported, but there is no {error.name} {where}")
    except (Exception, SystemExit) as error:
        raise failed(setting, text, f"importing {module}", error) from error
    if found is None:
        near = difflib.get_close_matches(function, dir(sys.modules[module]), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        refuse(setting, text, f"a function of module {module}, which has no {function!r}{hint}")
    if not callable(found):
        refuse(setting, text, f"a function, but {function!r} of module {module} is of type {type(found).__name__}")
    function_found: Callable[..., Any] = found
    return function_found


def failed(setting: str, text: str, doing: str, error: BaseException) -> InputError:
    """Return the refusal of a setting whose code failed, to be raised from the error it tells about.

    >>> str(failed("data", "python:mine:load", "importing mine", KeyError("a")))
    "data='python:mine:load' is not accepted: importing mine failed with KeyError: 'a'"
    """
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InputError(f"{setting}={text!r} is not accepted: {doing} failed with {cause}")


def names_in(setting: str, text: str) -> tuple[str, str]:
    """Read the module and the function that a setting names; nothing is imported.

    >>> names_in("model", "python:mine.nets:small")
    ('mine.nets', 'small')
    """
    module, colon, function = text.removeprefix(PREFIX).partition(":")
    words = [*module.split("."), function]
    if not text.startswith(PREFIX) or not colon or not all(word.isidentifier() for word in words):
        refuse(setting, text, 'a module and a function in it, such as "python:module:function"')
    return module, function
