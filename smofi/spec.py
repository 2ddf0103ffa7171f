"""Values written as strings: "fedprox(mu=0.01)+smofi", "dirichlet(0.2)", "python:mine:method(beta=0.5)".

Read with Python's grammar, never executed: known names; plain numbers and words as parameters. Only `import_function`
runs code, the user's own.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from smofi.errors import InputError, check_choice, refuse

Built = TypeVar("Built")
PREFIX = "python:"
IMPORTED = re.compile(r"\bpython:[\w.]*:\w*")
"""A user's own function, which Python's grammar does not know."""


@dataclass(frozen=True)
class Call:
    """A name with the parameters written behind it."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        given = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs)]
        return f"{self.name}({', '.join(given)})" if given else self.name


def read_calls(field: str, text: str, example: str) -> list[Call]:
    """Read the calls in a string, joined by +.

    >>> read_calls("method", "fedprox(mu=0.01)+smofi", "smofi")
    [Call(name='fedprox', args=(), kwargs=(('mu', 0.01),)), Call(name='smofi', args=(), kwargs=())]
    """
    imported = {f"imported_{number}": name for number, name in enumerate(IMPORTED.findall(text))}
    names = iter(imported)
    plain = IMPORTED.sub(lambda _: next(names), text.strip())
    try:
        return [_read(term, imported) for term in _terms(ast.parse(plain, mode="eval").body)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        refuse(field, text, f'a name, with its parameters in brackets if it has any, such as "{example}"')


def build(builder: Callable[..., Built], call: Call) -> Built:
    """Call the builder; parameters that do not fit become a sentence that says how it is written."""
    check_parameters(builder, call, describe(builder))
    return builder(*call.args, **dict(call.kwargs))


def check_parameters(builder: Callable[..., Any], call: Call, written: str) -> None:
    """Refuse parameters that a builder does not take."""
    try:
        inspect.signature(builder).bind(*call.args, **dict(call.kwargs))
    except TypeError as error:
        raise InputError(f"{call.name} is not accepted: {error}; it is written {written}") from None


def build_one(field: str, text: str, builders: Mapping[str, Callable[..., Built]], example: str) -> Built:
    """Build the single value that a string stands for, by one of the builders."""
    calls = read_calls(field, text, example)
    if len(calls) != 1:
        refuse(field, text, f'a single one, such as "{example}"')
    return build(builders[check_choice(field, calls[0].name, builders)], calls[0])


def describe(builder: Callable[..., Any]) -> str:
    """Write a builder's name and its parameters with their defaults.

    >>> def fedprox(mu: float, scope: str = "model") -> None: ...
    >>> describe(fedprox)
    "fedprox(mu, scope='model')"
    """
    return f"{builder.__name__}{parameters_of(builder)}"


def parameters_of(builder: Callable[..., Any]) -> str:
    """Write the parameters of a builder with their defaults, in brackets."""
    parameters = inspect.signature(builder).parameters.values()
    return f"({', '.join(str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters)})"


def _terms(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return [*_terms(tree.left), *_terms(tree.right)]
    return [tree]


def _read(term: ast.expr, imported: Mapping[str, str]) -> Call:
    call = term if isinstance(term, ast.Call) else ast.Call(term, [], [])
    names = [keyword.arg for keyword in call.keywords]
    if not isinstance(call.func, ast.Name) or None in names or len(set(names)) < len(names):
        raise ValueError
    kwargs = tuple((str(keyword.arg), _value(keyword.value)) for keyword in call.keywords)
    return Call(imported.get(call.func.id, call.func.id), tuple(map(_value, call.args)), kwargs)


def _value(node: ast.expr) -> Any:
    """Read a plain value: a word needs no quotes, and infinity goes by the name it is printed with."""
    if isinstance(node, ast.Name):
        return math.inf if node.id == "inf" else node.id
    return ast.literal_eval(node)


# --------------------------------------------------------------------------------------------------------------------
# A user's own function, named in a setting as "python:module:function".


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
    """Return the refusal of a setting whose code failed, to be raised from the error it tells about."""
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InputError(f"{setting}={text!r} is not accepted: {doing} failed with {cause}")


def names_in(setting: str, text: str) -> tuple[str, str]:
    """Read the module and the function that a setting names; nothing is imported."""
    module, colon, function = text.removeprefix(PREFIX).partition(":")
    words = [*module.split("."), function]
    if not text.startswith(PREFIX) or not colon or not all(word.isidentifier() for word in words):
        refuse(setting, text, 'a module and a function in it, such as "python:module:function"')
    return module, function
