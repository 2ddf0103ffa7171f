"""Values written as strings: "fedprox(mu=0.01)+smofi", "dirichlet(0.2)", "python:mine:method(beta=0.5)".

Read with Python's grammar, never executed: known names; plain numbers and words as parameters.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from smofi.errors import InputError, check_choice, refuse

Built = TypeVar("Built")

IMPORTED = re.compile(r"\bpython:[\w.]*:\w*")
"""A user's own function, which Python's grammar does not know."""


@dataclass(frozen=True)
class Call:
    """A name with the parameters written behind it.

    >>> str(Call("fedprox", (0.1,), (("scope", "server"),))), str(Call("smofi"))
    ("fedprox(0.1, scope='server')", 'smofi')
    """

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
    >>> [str(call) for call in read_calls("method", "python:mine.own:pull(0.5)+smofi", "smofi")]
    ['python:mine.own:pull(0.5)', 'smofi']
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
    """Refuse parameters that a builder does not take.

    >>> check_parameters(lambda mu: mu, Call("fedprox"), "fedprox(mu)")
    Traceback (most recent call last):
    smofi.errors.InputError: fedprox is not accepted: missing a required argument: 'mu'; it is written fedprox(mu)
    """
    try:
        inspect.signature(builder).bind(*call.args, **dict(call.kwargs))
    except TypeError as error:
        raise InputError(f"{call.name} is not accepted: {error}; it is written {written}") from None


def build_one(field: str, text: str, builders: Mapping[str, Callable[..., Built]], example: str) -> Built:
    """Build the single value that a string stands for, by one of the builders.

    >>> build_one("kind", "pair(1, b=2)", {"pair": lambda a, b: (a, b)}, "pair(1, b=2)")
    (1, 2)
    """
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
