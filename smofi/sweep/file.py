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
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from smofi.config import Config, sentence_of
from smofi.config.presets import preset_names, preset_text
from smofi.config.reading import value_as_yaml
from smofi.config.settings import SETTINGS
from smofi.errors import InputError, check_choice, shown
from smofi.plain_yaml import as_yaml, line_of, parse_settings, read_text
from smofi.sweep.store import Cell

GRID, LIST, PRESET, SCALE = KEYS = ("grid", "list", "preset", "scale")
MOST_CELLS = 10_000
SEEDS = {"seed", "seeds"}


@dataclass(frozen=True)
class SweepFile:
    """Hold a file that was read: its text, and its cells in the order in which they are run: seed by seed, so that a
    sweep that is not finished has whole comparisons."""

    text: str
    cells: Sequence[Cell]


def read_sweep(path: Path) -> SweepFile:
    """Read the cells that a file stands for. What can be told to be wrong is refused here, naming the cell."""
    name, text = str(path), read_text(path)
    given = parse_settings(text, name)
    grid, listed, preset, scale = (given.pop(key, None) for key in KEYS)
    _check_names(given, name, text)
    points = _points(_grid(grid, name), _list(listed, name), name)
    base = {**_preset(preset, scale, name), **given}
    configs = []
    for number, point in enumerate(points, start=1):
        # a cell's own seed takes the place of the file's seeds
        shared = {key: value for key, value in base.items() if not (key in SEEDS and SEEDS & point.keys())}
        try:
            configs.append(Config(**{**shared, **point}))
        except ValidationError as error:
            field = (sentence := sentence_of(error)).partition("=")[0]
            said = ", ".join(f"{key} {as_yaml(value)}" for key, value in point.items())
            where = f"cell {number} of {len(points)}" + (f" ({said})" if said else "")
            if field in given and field not in point:
                where = f"line {line_of(field, text)}"
            raise InputError(f"{name}, {where}: {sentence}") from None
    return SweepFile(text, labelled(each_alone(configs), name))


def each_alone(configs: Iterable[Config]) -> list[Config]:
    """Divide runs into runs of one method and one seed each, the seeds one after the other."""
    alone = [
        config.with_seed(seed).model_copy(update={"method": (method,), "executor": (config.executor_of(method),)})
        for config in configs
        for method in config.method
        for seed in config.each_seed
    ]
    order = list(dict.fromkeys(config.seed for config in alone))
    return sorted(alone, key=lambda config: order.index(config.seed))


def labelled(configs: Sequence[Config], name: str) -> list[Cell]:
    """Make cells with labels that tell them apart; refuse two that compute the same numbers."""
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


def _preset(preset: Any, scale: Any, name: str) -> dict[str, Any]:
    if preset is None:
        if scale is not None:
            _refuse(name, SCALE, scale, "a preset with it")
        return {}
    try:
        check_choice(PRESET, preset, preset_names())
        return parse_settings(preset_text(preset, scale), f"preset {preset}")
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _grid(grid: Any, name: str) -> dict[str, list[Any]]:
    if grid is None:
        return {}
    if not isinstance(grid, dict) or not grid:
        _refuse(name, GRID, grid, "settings, each with a list of values, such as seed: [0, 1, 2]")
    _check_names(grid, f"{name}, {GRID}")
    lists = {setting: [values] if setting == "seeds" else values for setting, values in grid.items()}  # such as 0-2
    for setting, values in lists.items():
        if not isinstance(values, list) or not values:
            _refuse(f"{name}, {GRID}", setting, values, "a list with at least one value")
    return lists


def _list(listed: Any, name: str) -> list[dict[str, Any]]:
    if listed is None:
        return [{}]
    if not isinstance(listed, list) or not listed:
        _refuse(name, LIST, listed, "at least one entry of settings, such as - partition: iid")
    for number, entry in enumerate(listed, start=1):
        if not isinstance(entry, dict):
            _refuse(name, f"{LIST}, entry {number}", entry, "settings, such as partition: iid")
        _check_names(entry, f"{name}, {LIST}, entry {number}")
    return listed


def _points(grid: Mapping[str, list[Any]], listed: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Combine every point of the grid with every entry of the list."""
    if both := [setting for entry in listed for setting in entry if setting in grid]:
        raise InputError(f"{name} has {both[0]} in {GRID} and in {LIST}: expected it in one of them")
    number = math.prod(map(len, grid.values())) * len(listed)
    if number > MOST_CELLS:
        raise InputError(f"{name} stands for {number:,} cells: expected at most {MOST_CELLS:,}")
    combined = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [{**entry, **values} for entry in listed for values in combined]


def _check_names(settings: Mapping[str, Any], where: str, text: str = "") -> None:
    """Refuse a setting that does not exist; `text` is that of the whole file, where it is about the file's own."""
    known = [*SETTINGS, *(KEYS if text else ())]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else "; smofi run --help lists the settings"
            line = f", line {line_of(name, text)}" if text else ""
            raise InputError(f"{where}{line}: {shown(name)} is not accepted: there is no such setting{hint}")


def _refuse(where: str, setting: str, value: Any, accepted: str) -> NoReturn:
    raise InputError(f"{where}: {setting}: {shown(value)} is not accepted: expected {accepted}")
