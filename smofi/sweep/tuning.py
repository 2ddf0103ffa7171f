"""Tune a method's parameters: the values that are tried, and which are best on validation data."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from smofi.config import Config
from smofi.errors import InputError, check_choice, refuse, shown
from smofi.methods import METHODS, load_plugins, method_name
from smofi.methods.registry import EXAMPLE
from smofi.runs import RunFolder
from smofi.spec import PREFIX as IMPORTED
from smofi.spec import Call, read_calls

if TYPE_CHECKING:
    from smofi.sweep.running import Outcome

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


class Parameter(NamedTuple):
    """Name a parameter of one of the methods that are joined by +: the method's place, and its name there."""

    place: int
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Variant:
    """Hold a method with one combination of values, written in full."""

    method: str
    values: Mapping[Parameter, float]


def variants(text: str, given: Sequence[str] = ()) -> list[Variant]:
    """Write a method with every combination of values: those that are `given`, such as "mu=0.001,0.01", or else the
    grids of all its parameters that are not written in the method itself.

    >>> [variant.method for variant in variants("fedprox+smofi(alpha=-1)", ["mu=0.001,0.01"])]
    ['fedprox(mu=0.001)+smofi(alpha=-1)', 'fedprox(mu=0.01)+smofi(alpha=-1)']
    """
    calls = read_calls("method", text, EXAMPLE)
    load_plugins()
    for call in calls:
        if not call.name.startswith(IMPORTED):
            check_choice("method", call.name, METHODS)
    if given:
        grid = dict(_read(one, calls) for one in given)
        if len(grid) < len(given):
            raise InputError("--grid names a parameter twice: expected each once")
    else:
        grid = {
            Parameter(place, name): values
            for place, call in enumerate(calls)
            for name, values in GRIDS.get(call.name, {}).items()
            if name not in _written(call)
        }
    if not grid:
        refuse("method", text, f"values to try, such as --grid NAME=0.1,0.5; parameters of {_known(calls)}")
    found = []
    for chosen in product(*grid.values()):
        values = dict(zip(grid, chosen, strict=True))
        filled = []
        for place, call in enumerate(calls):
            own = tuple((one.name, value) for one, value in values.items() if one.place == place)
            filled.append(Call(call.name, call.args, (*call.kwargs, *own)))
        found.append(Variant(method_name("+".join(map(str, filled))), values))
    return found


def _read(text: str, calls: Sequence[Call]) -> tuple[Parameter, Values]:
    name, equals, listed = text.replace(" ", "").partition("=")
    method, _, name = name.rpartition(".")
    if not equals or not name or not listed:
        raise InputError(f"--grid {text} is not accepted: expected a parameter and its values, as in mu=0.001,0.01")
    able = [
        Parameter(place, name)
        for place, call in enumerate(calls)
        if method in ("", call.name) and (call.name.startswith(IMPORTED) or name in _parameters(call))
    ]
    if not able:
        raise InputError(f"--grid {name} is not accepted: expected one of the parameters of {_known(calls)}")
    call = calls[able[0].place]
    if len(able) > 1:
        raise InputError(f"--grid {name} is a parameter of several methods: write {call.name}.{name}=... instead")
    if name in _written(call):
        raise InputError(f"--grid {name} is not accepted: the method has a value for it, {call}")
    values = tuple(_number(name, value) for value in listed.split(","))
    if len(set(values)) < len(values):
        raise InputError(f"--grid {name} has a value twice: expected each once")
    return able[0], values


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        accepted = f"expected numbers, as in {name}=0.001,0.01"
        raise InputError(f"--grid {name}: {shown(text)} is not accepted: {accepted}") from None


def _known(calls: Sequence[Call]) -> str:
    return "; of ".join(f"{call.name}: {', '.join(_parameters(call)) or 'none'}" for call in calls)


def _parameters(call: Call) -> list[str]:
    return [] if call.name.startswith(IMPORTED) else list(inspect.signature(METHODS[call.name]).parameters)


def _written(call: Call) -> set[str]:
    return {*_parameters(call)[: len(call.args)], *dict(call.kwargs)}


# --------------------------------------------------------------------------------------------------------------------
# Which values are best: by the accuracy on validation data alone. The test data has no say, and is not looked at.

SHARE = 0.1
"""Of the training data, held out for validation."""


@dataclass(frozen=True)
class Trial:
    """Hold a variant over its seeds, as far as they are finished: the best validation value of each, and the mean of
    its rounds. `missing` says why some seed has none; such a variant is not chosen."""

    variant: Variant
    best: tuple[float, ...]
    means: tuple[float, ...]
    missing: str = ""

    @property
    def mean(self) -> float:
        """Return the mean over seeds, by which variants are compared; minus infinity without any."""
        return fmean(self.best) if self.best else -math.inf

    @property
    def spread(self) -> float | None:
        """Return the standard deviation over seeds, which a single one does not have."""
        return stdev(self.best) if len(self.best) > 1 else None


def held_out(given: Mapping[str, object], config: Config) -> float:
    """Return the share of the training data to hold out: as it is set, or a tenth. Refuse nothing at all."""
    if "validation" in given and not config.validation:
        refuse("validation", 0, "more than 0, since values are chosen on validation data")
    return config.validation or SHARE


def tried(variants: Sequence[Variant], outcomes: Sequence[Outcome]) -> list[Trial]:
    """Make a trial of each variant, from the runs of its cells."""
    trials = []
    for variant in variants:
        best, means, missing = [], [], ""
        for outcome in (one for one in outcomes if one.cell.method == variant.method):
            if outcome.state != "finished":
                missing = "diverged" if "diverged" in (outcome.state, missing) else outcome.state
                continue
            assert outcome.folder
            measured = [record.get("validation") for record in RunFolder(outcome.folder).records()]
            if values := [float(value) for value in measured if value is not None and math.isfinite(value)]:
                best.append(max(values))
                means.append(fmean(values))
            else:
                missing = missing or "no validation data"
        trials.append(Trial(variant, tuple(best), tuple(means), missing))
    return trials


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the highest mean over seeds, among equals that with the highest mean over rounds; None if
    no variant has all its seeds."""
    return max(_whole(trials), key=lambda trial: (trial.mean, fmean(trial.means)), default=None)


def within_spread(best: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """Return the others that are no further from the best than its standard deviation over seeds."""
    close = [trial for trial in _whole(trials) if trial is not best]
    return [trial for trial in close if best.spread is not None and best.mean - trial.mean <= best.spread]


def at_the_edge(best: Trial, trials: Sequence[Trial]) -> dict[Parameter, str]:
    """Return the parameters of which the best trial has the smallest or the largest value of at least three: a better
    one may lie beyond."""
    found = {}
    for parameter, value in best.variant.values.items():
        tried_values = {trial.variant.values[parameter] for trial in trials}
        if len(tried_values) > 2 and value in (least := min(tried_values), max(tried_values)):
            found[parameter] = "smallest" if value == least else "largest"
    return found


def _whole(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.best and not trial.missing]
