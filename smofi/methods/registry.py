"""Methods by name, and methods written as strings: "fedprox(mu=0.01)+smofi", "python:module:function"."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from importlib.metadata import EntryPoint, entry_points
from typing import ParamSpec

from smofi.composition import compose
from smofi.errors import InputError, check_choice, refuse
from smofi.method import Method
from smofi.spec import (
    PREFIX,
    Call,
    build,
    check_parameters,
    failed,
    import_function,
    names_in,
    parameters_of,
    read_calls,
)

EXAMPLE = "fedprox(mu=0.01)+smofi"

METHODS: dict[str, Callable[..., Method]] = {}

Parameters = ParamSpec("Parameters")


def register(builder: Callable[Parameters, Method]) -> Callable[Parameters, Method]:
    """Give a method's builder a name, so that it can be written as a string and listed by `smofi methods`.

    >>> @register
    ... def plain() -> Method:
    ...     "Nothing special."
    ...     return Method()
    >>> parse_method("plain").name
    'plain'
    >>> del METHODS["plain"]
    """
    taken = METHODS.get(builder.__name__)
    if taken is not None and taken.__module__ != builder.__module__:
        raise InputError(
            f"a method called {builder.__name__} already exists, in {taken.__module__}; choose another name"
        )
    signature = inspect.signature(builder)

    @functools.wraps(builder)
    def named(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Method:
        given = signature.bind(*args, **kwargs).arguments
        try:
            made = builder(*args, **kwargs)
        except InputError as error:
            raise InputError(f"{builder.__name__}: {error}") from None
        shown = [f"{key}={value!r}" for key, value in given.items() if value != signature.parameters[key].default]
        return replace(made, name=builder.__name__ + (f"({', '.join(shown)})" if shown else ""))

    METHODS[builder.__name__] = named
    return named


def parse_method(text: str) -> Method:
    """Read a method written as a string: names joined by +, with or without parameters.

    >>> parse_method("fedprox(mu=0.01)+smofi").name
    'fedprox(mu=0.01)+smofi'
    """
    return _composed(text, _imported)


def method_name(text: str) -> str:
    """How a method is written in full. Nothing of the user's own is imported, so that a run can be shown anywhere.

    >>> method_name("fedavgm(0.3)"), method_name("python:mine:pull(0.5) + smofi")
    ('fedavgm(momentum=0.3)', 'python:mine:pull(0.5)+smofi')
    """
    return _composed(text, _named).name


def _composed(text: str, own: Callable[[Call], Method]) -> Method:
    calls = read_calls("method", text, EXAMPLE)
    return compose(*(own(call) if call.name.startswith(PREFIX) else build(_find(call.name), call) for call in calls))


def load_plugins() -> None:
    """Register the methods that installed packages offer under the entry point group `smofi.methods`."""
    for plugin in entry_points(group="smofi.methods"):
        if plugin.name not in METHODS:
            _load(plugin)


def _find(name: str) -> Callable[..., Method]:
    """The builder of that name: ours, one registered at run time, or one that an installed package offers."""
    if name not in METHODS:
        for plugin in entry_points(group="smofi.methods", name=name):
            _load(plugin)
    return METHODS[check_choice("method", name, METHODS)]


def _imported(call: Call) -> Method:
    """What a user's own function returns, under the name by which it is called."""
    function = import_function("method", call.name)
    try:
        check_parameters(function, call, f"{call.name}{parameters_of(function)}")
        method = function(*call.args, **dict(call.kwargs))
    except InputError as error:
        raise InputError(f"method={str(call)!r}: {error}") from None
    except (Exception, SystemExit) as error:
        raise failed("method", call.name, "calling it", error) from error
    if not isinstance(method, Method):
        refuse("method", call.name, f"a function that returns a smofi.Method, but it returned {type(method).__name__}")
    return replace(method, name=str(call))


def _named(call: Call) -> Method:
    """The name alone."""
    names_in("method", call.name)
    return Method(name=str(call))


def _load(plugin: EntryPoint) -> None:
    try:
        builder = plugin.load()
    except Exception as error:
        raise InputError(f"the method {plugin.name} of {plugin.value} cannot be loaded: {error}") from error
    METHODS[plugin.name] = register(builder)


# --------------------------------------------------------------------------------------------------------------------
# The bare base of a method: what it is compared with.

PLAIN = "fedavg"
OF_THE_GRADIENT = {"name", "pull", "decay", "limit"}
"""The slots of a base: it changes a client's gradient, and nothing else of the round."""


def bare_base(method: str) -> str:
    """What is left of a method without its plugins: FedProx, FedNAR or clipping, else FedAvg. A base is its own.

    >>> bare_base("fedprox(mu=0.01)+smofi"), bare_base("fednar"), bare_base('sflv1("epoch")'), bare_base("smofi")
    ('fedprox(mu=0.01)', 'fednar', 'fedavg', 'fedavg')
    """
    try:
        parts = [parse_method(str(call)) for call in read_calls("method", method, EXAMPLE) if not _is_own(call)]
    except InputError:  # not a method of ours, such as the name that a curve was given
        return PLAIN
    return "+".join(part.name for part in parts if part.name != PLAIN and _is_base(part)) or PLAIN


def _is_own(call: Call) -> bool:
    """Of a user's own nothing is known, and nothing is imported to find out."""
    return call.name.startswith(PREFIX)


def _is_base(method: Method) -> bool:
    taken = {slot.name for slot in fields(Method) if getattr(method, slot.name) is not None}
    return taken <= OF_THE_GRADIENT
