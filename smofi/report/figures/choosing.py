"""From a request and the setups of finished runs to the figure: which panels there are, and what they show."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from smofi.config.settings import SETTINGS
from smofi.errors import InputError, refuse
from smofi.methods import METHODS, bare_base
from smofi.report.comparing.blocks import with_target
from smofi.report.figures.drawing import Drawing, Panel, bars_figure, curves_figure, points_figure
from smofi.report.figures.request import Request
from smofi.report.history import History
from smofi.report.names import rows_by_base, titles
from smofi.report.setups import Setup
from smofi.spec import Call, read_calls

# --------------------------------------------------------------------------------------------------------------------
# A parameter of a method, such as SMoFi's alpha, and what the method is called without it.


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


# --------------------------------------------------------------------------------------------------------------------
# From a request and the setups of finished runs to the figure: which panels there are, and what they show.

BASE = "base"


def figure_of(setups: Sequence[Setup], request: Request, *, own_axes: bool = False) -> Drawing:
    """The figure that was asked for, or what suits the setups: curves, and a panel for each if there are several, all
    with the same range of values unless they have `own_axes`."""
    if request.over is not None:
        panels = _panels(_over(setups, request.over, request.baseline), request, measured=True)
        name = request.over.replace("_", " ")
        return points_figure(panels, request.values, setting=name, reference=request.baseline, width=request.inches)
    if request.kind == "curves":
        _check_one(setups)
    found = _by_base(setups) if request.by == BASE else _by_setup(setups, request.by)
    if request.kind == "bars":
        return bars_figure(_panels(found, request, measured=True), request.values, width=request.inches)
    panels = _panels(found, request)
    return curves_figure(panels, over_hours=request.hours, width=request.inches, own_axes=own_axes)


def _panels(found: Mapping[str, Sequence[History]], request: Request, *, measured: bool = False) -> list[Panel]:
    """Panels by their titles, the methods as in the paper's table; if `measured`, without seeds that have no target."""
    target, baseline = request.target, request.baseline
    methods = dict.fromkeys(history.name for histories in found.values() for history in histories)
    order = [name for _, names in rows_by_base(list(methods)) for name in names]
    panels = []
    for title, histories in found.items():
        shown = with_target(histories, target, baseline)[0] if measured else histories
        ordered = sorted(shown, key=lambda history: order.index(history.name))
        panels.append(Panel(title, ordered, baseline, target.share, target.fixed))
    return panels


def _by_setup(setups: Sequence[Setup], by: str | None) -> dict[str, list[History]]:
    """The histories of each setup; they differ in the setting `by` alone, if one is named."""
    if by is not None:
        _check_apart(setups, by, "by")
    if len(setups[0].settings) == 1:
        setups = sorted(setups, key=lambda setup: _order(*setup.settings.values()))
    return {_title(by, setup.settings[by]) if by else setup.name: setup.histories for setup in setups}


def _by_base(setups: Sequence[Setup]) -> dict[str, list[History]]:
    """Those of each bare base, with its plugins."""
    _check_one(setups)
    histories = setups[0].histories
    groups = rows_by_base(list(dict.fromkeys(history.name for history in histories)))
    called = titles([base for base, _ in groups])
    return {called[base]: [one for one in histories if one.name in names] for base, names in groups}


def _over(setups: Sequence[Setup], over: str, baseline: str) -> dict[str, list[History]]:
    """Those of each value of a setting, or of a parameter of methods, in ascending order."""
    if over in SETTINGS:
        _check_apart(setups, over, "over")
        found = {setup.settings[over]: setup.histories for setup in setups}
        found = _same_at_every_cut(found, baseline) if over == "cut" else found
    else:
        _check_one(setups)
        found = _by_parameter(setups[0].histories, over)
    return _in_several({value: found[value] for value in sorted(found, key=_order)}, baseline)


def _in_several(found: Mapping[str, list[History]], baseline: str) -> dict[str, list[History]]:
    """Without methods that were run with a single value: they make no line."""
    values = Counter(name for histories in found.values() for name in {history.name for history in histories})
    return {
        value: [one for one in histories if values[one.name] > 1 or one.name == baseline]
        for value, histories in found.items()
    }


def _check_one(setups: Sequence[Setup]) -> None:
    if len(setups) > 1:
        apart = list(setups[0].settings)
        raise InputError(
            f"these runs are of {len(setups)} setups, which differ in {', '.join(apart)}: expected one setup, or "
            f"--by {apart[0]} for a panel each"
        )


def _check_apart(setups: Sequence[Setup], setting: str, field: str) -> None:
    """Refuse a setting in which the setups do not differ, or beside which they differ in others."""
    apart = setups[0].settings
    if setting not in apart:
        differ = f"; they differ in {', '.join(apart)}" if apart else ", but they differ in none"
        refuse(field, setting, f"a setting in which these runs differ{differ}")
    if others := [name for name in apart if name != setting]:
        refuse(field, setting, f"runs that differ in nothing else, but these differ in {', '.join(others)} too")


def _same_at_every_cut(found: Mapping[str, list[History]], baseline: str) -> dict[str, list[History]]:
    """A base trains the model whole, and learns the same at every cut: where it was run at one of them, it stands for
    all, without the hours, which do depend on the cut."""
    known = [one for histories in found.values() for one in histories if one.name == baseline == bare_base(baseline)]
    first = {history.seed: replace(history, hours=[]) for history in reversed(known)}
    return {
        cut: one if any(history.name == baseline for history in one) else [*first.values(), *one]
        for cut, one in found.items()
    }


def _by_parameter(histories: Sequence[History], name: str) -> dict[str, list[History]]:
    """The methods that have a parameter, by its value and named without it; the others stand with each value."""
    found: dict[str, list[History]] = {}
    others = []
    for history in histories:
        parameter = parameter_of(history.name, name)
        if parameter is None:
            others.append(history)
        else:
            found.setdefault(parameter.value, []).append(replace(history, name=parameter.rest))
    if len(found) < 2:
        same = f"; it is {next(iter(found))} in all of them" if found else ""
        refuse("over", name, f"a setting, or a parameter of a method, in which these runs differ{same}")
    return {value: [*others, *own] for value, own in found.items()}


def _title(setting: str, value: str) -> str:
    """
    >>> _title("cut", "1-2"), _title("partition", "iid")
    ('cut 1-2', 'iid')
    """
    return value if value[:1].isalpha() and value != "none" else f"{setting.replace('_', ' ')} {value}"


def _order(value: str) -> tuple[float, str]:
    """By the first number in it.

    >>> sorted(["4-7", "14-16", "0-3"], key=_order), sorted(["-0.1", "-10"], key=_order)
    (['0-3', '4-7', '14-16'], ['-10', '-0.1'])
    """
    number = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value)
    return (float(number[0]) if number else float("inf"), value)
