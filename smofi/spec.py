"""Values written as strings: "fedprox(mu=0.01)+smofi", "dirichlet(0.2)", "sgd(lr=0.05, momentum=0.9)".

Read with Python's grammar, never executed: known names, plain numbers and quoted words as parameters.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from smofi.errors import InputError, check_choice, refuse

Built = TypeVar("Built")


@dataclass(frozen=True)
class Call:
    """A name with the parameters written behind it."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()


def read_calls(field: str, text: str, example: str) -> list[Call]:
    """The calls in a string, joined by +.

    >>> read_calls("method", "fedprox(mu=0.01)+smofi", "smofi")
    [Call(name='fedprox', args=(), kwargs=(('mu', 0.01),)), Call(name='smofi', args=(), kwargs=())]
    """
    try:
        return [_read(term) for term in _terms(ast.parse(text.strip(), mode="eval").body)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        refuse(field, text, f'a name with plain parameters, such as "{example}"')


def build(builder: Callable[..., Built], call: Call) -> Built:
    """Call the builder; parameters that do not fit become a sentence that says how it is written."""
    try:
        inspect.signature(builder).bind(*call.args, **dict(call.kwargs))
    except TypeError as error:
        raise InputError(f"{call.name} is not accepted like this: {error}; it is written {describe(builder)}") from None
    return builder(*call.args, **dict(call.kwargs))


def build_one(field: str, text: str, builders: Mapping[str, Callable[..., Built]], example: str) -> Built:
    """The single value that a string stands for, by one of the builders.

    >>> build_one("kind", "pair(1, b=2)", {"pair": lambda a, b: (a, b)}, "pair(1, b=2)")
    (1, 2)
    """
    calls = read_calls(field, text, example)
    if len(calls) != 1:
        refuse(field, text, f'a single one, such as "{example}"')
    return build(builders[check_choice(field, calls[0].name, builders)], calls[0])


def describe(builder: Callable[..., Any]) -> str:
    """How a builder is written: its name and its parameters with their defaults.

    >>> def fedprox(mu: float, scope: str = "model") -> None: ...
    >>> describe(fedprox)
    "fedprox(mu, scope='model')"
    """
    parameters = inspect.signature(builder).parameters.values()
    return f"{builder.__name__}({', '.join(str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters)})"


def _terms(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return [*_terms(tree.left), *_terms(tree.right)]
    return [tree]


def _read(term: ast.expr) -> Call:
    call = term if isinstance(term, ast.Call) else ast.Call(term, [], [])
    names = [keyword.arg for keyword in call.keywords]
    if not isinstance(call.func, ast.Name) or None in names or len(set(names)) < len(names):
        raise ValueError
    kwargs = tuple((str(keyword.arg), _value(keyword.value)) for keyword in call.keywords)
    return Call(call.func.id, tuple(map(_value, call.args)), kwargs)


def _value(node: ast.expr) -> Any:
    """A plain value; infinity by the name it is printed with."""
    return math.inf if isinstance(node, ast.Name) and node.id == "inf" else ast.literal_eval(node)
