"""How a run's config.yaml keeps its meaning when a default changes.

A run's file writes out the parameters whose default was once another: sflv2(turns='client'), not sflv2. One that does
not was written by an earlier version, and means what it meant then. This holds for the files of runs alone: in a file
of the user's own, and on the command line, names have the defaults of today.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smofi.methods import METHODS
from smofi.methods.registry import EXAMPLE
from smofi.spec import read_calls

FORMER: Mapping[str, Mapping[str, Any]] = {"sflv2": {"turns": "step"}}
"""The methods with a default that has changed, and what it was."""


def written_out(method: str) -> str:
    """A method as a run's file has it.

    >>> written_out("fedprox(mu=0.1)+sflv2"), written_out("smofi")
    ("fedprox(mu=0.1)+sflv2(turns='client')", 'smofi')
    """
    today = {
        name: {key: inspect.signature(METHODS[name]).parameters[key].default for key in former}
        for name, former in FORMER.items()
    }
    return _filled(method, today)


def as_begun(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a run's file, as they were meant when it was written.

    >>> as_begun({"method": ["fedavg", "sflv2"], "rounds": 3})
    {'method': ['fedavg', "sflv2(turns='step')"], 'rounds': 3}
    """
    given = settings.get("method")
    if isinstance(given, str):
        return {**settings, "method": _filled(given, FORMER)}
    if isinstance(given, list):
        return {**settings, "method": [_filled(one, FORMER) if isinstance(one, str) else one for one in given]}
    return {**settings}


def has_changed(method: str) -> bool:
    """Whether a default of the method has changed.

    >>> has_changed("fedprox(mu=0.1)+sflv2"), has_changed("smofi")
    (True, False)
    """
    return any(name in method for name in FORMER)


def _filled(method: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """The method with these parameters where it does not give its own. In a run's file, parameters have their names."""
    if not has_changed(method):
        return method
    calls = read_calls("method", method, EXAMPLE)
    return "+".join(
        str(replace(call, kwargs=tuple({**values.get(call.name, {}), **dict(call.kwargs)}.items()))) for call in calls
    )
