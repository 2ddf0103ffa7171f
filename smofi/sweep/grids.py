"""The values that a method's parameters are tuned over: those of the paper, filled up by ours, or those given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from smofi.errors import InputError, check_choice, refuse, shown
from smofi.imported import PREFIX as IMPORTED
from smofi.methods import METHODS, load_plugins, method_name
from smofi.methods.registry import EXAMPLE
from smofi.spec import Call, read_calls

Values: TypeAlias = tuple[float, ...]

GRIDS: dict[str, dict[str, Values]] = {
    # the grid of the paper's search
    "fedprox": {"mu": (0.0001, 0.001, 0.01, 0.1)},
    # the paper's study has 0.1 to 0.5; 0.7 is its choice for Shakespeare
    "fedavgm": {"momentum": (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)},
    # the paper's choices are (0.5, 0.4) and (1, 0.6); the other combinations are ours
    "slowmo": {"lr": (0.5, 1.0), "momentum": (0.4, 0.5, 0.6)},
    # the paper's studies have alpha from -0.01 to -10, and the global momentum from 0.1 to 0.5
    "smofi": {"alpha": (-0.01, -0.1, -1.0, -10.0), "global_momentum": (0.1, 0.2, 0.3, 0.4, 0.5)},
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of one of the methods that are joined by +: the method's place among them, and its name there."""

    place: int
    method: str
    name: str

    def __str__(self) -> str:
        return self.name


Grid: TypeAlias = Mapping[Parameter, Values]


@dataclass(frozen=True)
class Variant:
    """A method with one combination of values, written in full."""

    method: str
    values: Mapping[Parameter, float]


def variants(text: str, given: Sequence[str] = ()) -> list[Variant]:
    """A method with every combination of values: those that are `given`, such as "mu=0.001,0.01", or else the grids of
    all its parameters that are not written in the method itself.

    >>> [variant.method for variant in variants("fedprox+smofi(alpha=-1)", ["mu=0.001,0.01"])]
    ['fedprox(mu=0.001)+smofi(alpha=-1)', 'fedprox(mu=0.01)+smofi(alpha=-1)']
    """
    calls = read_calls("method", text, EXAMPLE)
    load_plugins()
    for call in calls:
        if not call.name.startswith(IMPORTED):
            check_choice("method", call.name, METHODS)
    grid = dict(_read(one, calls) for one in given) if given else _usual(calls)
    if len(grid) < len(given):
        raise InputError("--grid names a parameter twice: expected each once")
    if not grid:
        known = [f"{call.name}: {', '.join(_parameters(call)) or 'none'}" for call in calls]
        refuse("method", text, f"values to try, such as --grid NAME=0.1,0.5; parameters of {'; of '.join(known)}")
    return [_variant(calls, dict(zip(grid, values, strict=True))) for values in product(*grid.values())]


def _usual(calls: Sequence[Call]) -> dict[Parameter, Values]:
    return {
        Parameter(place, call.name, name): values
        for place, call in enumerate(calls)
        for name, values in GRIDS.get(call.name, {}).items()
        if name not in _written(call)
    }


def _read(text: str, calls: Sequence[Call]) -> tuple[Parameter, Values]:
    """A parameter with its values, as in "mu=0.001,0.01" or "fedprox.mu=0.001,0.01"."""
    name, equals, listed = text.replace(" ", "").partition("=")
    method, _, name = name.rpartition(".")
    if not equals or not name or not listed:
        raise InputError(f"--grid {text} is not accepted: expected a parameter and its values, as in mu=0.001,0.01")
    able = [
        Parameter(place, call.name, name)
        for place, call in enumerate(calls)
        if method in ("", call.name) and (call.name.startswith(IMPORTED) or name in _parameters(call))
    ]
    if not able:
        known = [f"{call.name}: {', '.join(_parameters(call)) or 'none'}" for call in calls]
        raise InputError(f"--grid {name} is not accepted: expected one of the parameters of {'; of '.join(known)}")
    if len(able) > 1:
        raise InputError(f"--grid {name} is a parameter of several methods: write {able[0].method}.{name}=... instead")
    if name in _written(calls[able[0].place]):
        raise InputError(f"--grid {name} is not accepted: the method has a value for it, {calls[able[0].place]}")
    values = tuple(_number(name, value) for value in listed.split(","))
    if len(set(values)) < len(values):
        raise InputError(f"--grid {name} has a value twice: expected each once")
    return able[0], values


def _number(name: str, text: str) -> float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    raise InputError(f"--grid {name}: {shown(text)} is not accepted: expected numbers, as in {name}=0.001,0.01")


def _variant(calls: Sequence[Call], values: Mapping[Parameter, float]) -> Variant:
    filled = []
    for place, call in enumerate(calls):
        own = tuple((one.name, value) for one, value in values.items() if one.place == place)
        filled.append(Call(call.name, call.args, (*call.kwargs, *own)))
    return Variant(method_name("+".join(map(str, filled))), values)


def _parameters(call: Call) -> list[str]:
    return [] if call.name.startswith(IMPORTED) else list(inspect.signature(METHODS[call.name]).parameters)


def _written(call: Call) -> set[str]:
    """The parameters that are written in the method."""
    return {*_parameters(call)[: len(call.args)], *dict(call.kwargs)}
