"""A parameter of a method, such as SMoFi's alpha, and what the method is called without it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from smofi.errors import InputError
from smofi.methods import METHODS
from smofi.spec import Call, read_calls


@dataclass(frozen=True)
class Parameter:
    """Its value in a method, and the name of the method without it."""

    value: str
    rest: str


def parameter_of(method: str, name: str) -> Parameter | None:
    """The parameter of this name; None if no part of the method has one.

    >>> parameter_of("fednar+smofi(alpha=-1)", "alpha"), parameter_of("smofi", "alpha"), parameter_of("fedavg", "alpha")
    (Parameter(value='-1', rest='fednar+smofi'), Parameter(value='-0.1', rest='smofi'), None)
    """
    try:
        calls = read_calls("method", method, "smofi")
    except InputError:  # not a method, but the name that a curve was given
        return None
    for place, call in enumerate(calls):
        known = inspect.signature(METHODS[call.name]).parameters if call.name in METHODS else {}
        if name in known:
            given = dict(zip(known, call.args, strict=False)) | dict(call.kwargs)
            value = given.pop(name, known[name].default)
            rest = [*calls[:place], Call(call.name, (), tuple(given.items())), *calls[place + 1 :]]
            return Parameter(str(value), "+".join(map(str, rest)))
    return None
