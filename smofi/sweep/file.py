"""A sweep's file: the settings of a run, with a grid and a list of settings over which they vary.

preset: fashion-mnist              # or any settings of a run
scale: small
rounds: 20
grid:                              # every combination
  method: [fedavg, smofi]
  seed: [0, 1, 2]
list:                              # with each of these
  - partition: iid
  - {partition: dirichlet(0.1), participation: 0.4}
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from pydantic import ValidationError

from smofi.config import Config, sentence_of
from smofi.config.presets import preset_names, preset_text
from smofi.config.reading import value_as_yaml
from smofi.config.settings import SETTINGS
from smofi.errors import InputError, check_choice, refuse, shown
from smofi.imported import PREFIX as IMPORTED
from smofi.methods import METHODS, load_plugins, method_name
from smofi.methods.registry import EXAMPLE
from smofi.plain_yaml import as_yaml, line_of, parse_settings, read_text
from smofi.spec import Call, read_calls
from smofi.sweep.store import Cell

# --------------------------------------------------------------------------------------------------------------------
# The values that a method's parameters are tuned over: those of the paper, filled up by ours, or those given.


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


# --------------------------------------------------------------------------------------------------------------------
# A sweep's file: the settings of a run, with a grid and a list of settings over which they vary.

GRID, LIST, PRESET, SCALE = "grid", "list", "preset", "scale"
MOST_CELLS = 10_000

Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class SweepFile:
    """A file that was read: its text, and its cells in the order in which they are run: seed by seed, so that a sweep
    that is not finished has whole comparisons."""

    path: Path
    text: str
    cells: Sequence[Cell]


def read_sweep(path: Path) -> SweepFile:
    """The cells that a file stands for. Everything that can be told to be wrong is refused here, naming the cell."""
    name, text = str(path), read_text(path)
    given = parse_settings(text, name)
    varied = {key: given.pop(key, None) for key in (GRID, LIST, PRESET, SCALE)}
    _check_names(given, name, text, (GRID, LIST, PRESET, SCALE))
    base = {**_preset(varied[PRESET], varied[SCALE], name), **given}
    points = _points(_grid(varied[GRID], name), _list(varied[LIST], name), name)
    configs = []
    for number, point in enumerate(points):
        try:
            configs.append(_config(base, point))
        except ValidationError as error:
            field = (sentence := sentence_of(error)).partition("=")[0]
            common = field in given and field not in point
            where = f"line {line_of(field, text)}" if common else _place(number, point, points)
            raise InputError(f"{name}, {where}: {sentence}") from None
    return SweepFile(path, text, labelled(each_alone(configs), name))


def each_alone(configs: Iterable[Config]) -> list[Config]:
    """The same with one method and one seed each, the seeds one after the other."""
    alone = [
        config.with_seed(seed).model_copy(update={"method": (method,), "executor": (config.executor_of(method),)})
        for config in configs
        for method in config.method
        for seed in config.each_seed
    ]
    order = list(dict.fromkeys(config.seed for config in alone))
    return sorted(alone, key=lambda config: order.index(config.seed))


def labelled(configs: Sequence[Config], name: str) -> list[Cell]:
    """Cells with labels that tell them apart; refused if two of them compute the same numbers."""
    names = [one for one in SETTINGS if one not in ("method", "seed", "seeds")]
    apart = [one for one in names if len({getattr(config, one) for config in configs}) > 1]
    cells: dict[str, Cell] = {}
    for config in configs:
        values = [f"{one.replace('_', ' ')} {value_as_yaml(one, getattr(config, one))}" for one in apart]
        cell = Cell(config, ", ".join([*config.method, *values, f"seed {config.seed}"]))
        if (same := cells.setdefault(cell.key, cell)) is not cell:
            both = cell.label if cell.label == same.label else f"{same.label}; {cell.label}"
            raise InputError(f"{name} has the same cell twice ({both}): expected each once, with numbers of its own")
    return list(cells.values())


# ---------------------------------------------------------------------------------------------------- parts of the file


def _preset(preset: Any, scale: Any, name: str) -> dict[str, Any]:
    if preset is None:
        if scale is not None:
            raise InputError(f"{name}: scale: {as_yaml(scale)} is not accepted: expected a preset with it")
        return {}
    try:
        check_choice(PRESET, preset, preset_names())
        return parse_settings(preset_text(preset, scale), f"preset {preset}")
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _grid(grid: Any, name: str) -> dict[str, list[Any]]:
    """The values of each setting."""
    if grid is None:
        return {}
    if not isinstance(grid, dict) or not grid:
        _refuse(name, GRID, grid, "settings, each with a list of values, such as seed: [0, 1, 2]")
    _check_names(grid, f"{name}, {GRID}")
    lists = {setting: [values] if setting == "seeds" else values for setting, values in grid.items()}  # such as 0-2
    for setting, values in lists.items():
        if not isinstance(values, list) or not values:
            _refuse(f"{name}, {GRID}", setting, values, "a list with at least one value")
        twice = [value for number, value in enumerate(values) if value in values[:number]]
        if twice:
            _refuse(f"{name}, {GRID}", setting, values, f"each value once, but {shown(twice[0])} is there twice")
    return lists


def _list(listed: Any, name: str) -> list[dict[str, Any]]:
    """The settings of each of its entries."""
    if listed is None:
        return [{}]
    if not isinstance(listed, list) or not listed:
        _refuse(name, LIST, listed, "at least one entry of settings, such as - partition: iid")
    for number, entry in enumerate(listed, start=1):
        where = f"{name}, {LIST}, entry {number}"
        if not isinstance(entry, dict):
            raise InputError(f"{where}: {shown(entry)} is not accepted: expected settings, such as partition: iid")
        _check_names(entry, where)
    return listed


def _points(grid: Mapping[str, list[Any]], listed: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Every combination of the grid with every entry of the list."""
    if both := [setting for entry in listed for setting in entry if setting in grid]:
        raise InputError(f"{name} has {both[0]} in {GRID} and in {LIST}: expected it in one of them")
    number = math.prod(map(len, grid.values())) * len(listed)
    if number > MOST_CELLS:
        raise InputError(f"{name} stands for {number:,} cells: expected at most {MOST_CELLS:,}")
    combined = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [{**entry, **values} for entry in listed for values in combined]


# ---------------------------------------------------------------------------------------------------- what is wrong


def _config(base: Settings, point: Settings) -> Config:
    replaced = {"seed", "seeds"} if {"seed", "seeds"} & point.keys() else set()
    return Config(**{**{name: value for name, value in base.items() if name not in replaced}, **point})


def _place(number: int, point: Settings, points: Sequence[Settings]) -> str:
    """Which cell it is, in words."""
    said = ", ".join(f"{name} {as_yaml(value)}" for name, value in point.items())
    return f"cell {number + 1} of {len(points)}" + (f" ({said})" if said else "")


def _check_names(settings: Mapping[str, Any], where: str, text: str = "", beside: Iterable[str] = ()) -> None:
    known = [*SETTINGS, *beside]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else "; smofi run --help lists the settings"
            line = f", line {line_of(name, text)}" if text else ""
            raise InputError(f"{where}{line}: {shown(name)} is not accepted: there is no such setting{hint}")


def _refuse(where: str, setting: str, value: Any, accepted: str) -> NoReturn:
    raise InputError(f"{where}: {setting}: {shown(value)} is not accepted: expected {accepted}")
