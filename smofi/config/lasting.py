"""How a run's config.yaml keeps its meaning when a default changes.

A run's file writes out the parameters whose default was once another: sflv2(turns='client'), not sflv2; with a full
clock phones(rtt_ms=28), not phones. One that does not was written by an earlier version, and means what it meant then.
This holds for the files of runs alone: in a file of the user's own, and on the command line, names have the defaults of
today.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smofi.clock.phones import NAME as PHONES
from smofi.clock.phones import RTT_MS, Phones
from smofi.config.config import Config
from smofi.methods import METHODS
from smofi.methods.registry import EXAMPLE
from smofi.spec import read_calls

FORMER: Mapping[str, Mapping[str, Any]] = {"sflv2": {"turns": "step"}}
"""The methods with a default that has changed, and what it was."""

WITHOUT_TRIPS = str(Phones(rtt_ms=0))
"""What phones were under a full clock: no round trip was charged."""


def written_out(config: Config) -> dict[str, Any]:
    """The settings that a run's file has in other words.

    >>> written_out(Config(method=["fedprox(mu=0.1)+sflv2", "smofi"], clock="full"))
    {'method': ("fedprox(mu=0.1)+sflv2(turns='client')", 'smofi'), 'devices': 'phones(rtt_ms=28)'}
    """
    today = {
        name: {key: inspect.signature(METHODS[name]).parameters[key].default for key in former}
        for name, former in FORMER.items()
    }
    timed = config.clock == "full" and config.devices == PHONES
    return {
        "method": tuple(_filled(method, today) for method in config.method),
        "devices": f"{PHONES}(rtt_ms={RTT_MS:g})" if timed else config.devices,
    }


def as_begun(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a run's file, as they were meant when it was written.

    >>> as_begun({"method": ["fedavg", "sflv2"], "rounds": 3})
    {'method': ['fedavg', "sflv2(turns='step')"], 'rounds': 3}
    """
    meant, given = {**settings}, settings.get("method")
    if settings.get("clock") == "full" and settings.get("devices") == PHONES:
        meant["devices"] = WITHOUT_TRIPS
    if isinstance(given, str):
        meant["method"] = _filled(given, FORMER)
    elif isinstance(given, list):
        meant["method"] = [_filled(one, FORMER) if isinstance(one, str) else one for one in given]
    return meant


def has_changed(*values: str) -> bool:
    """Whether any of these may have been written otherwise by an earlier version.

    >>> has_changed("fedprox(mu=0.1)+sflv2"), has_changed("smofi"), has_changed("smofi", "phones(rtt_ms=0)")
    (True, False, True)
    """
    return WITHOUT_TRIPS in values or any(name in value for name in FORMER for value in values)


def _filled(method: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """The method with these parameters where it does not give its own. In a run's file, parameters have their names."""
    if not has_changed(method):
        return method
    calls = read_calls("method", method, EXAMPLE)
    return "+".join(
        str(replace(call, kwargs=tuple({**values.get(call.name, {}), **dict(call.kwargs)}.items()))) for call in calls
    )
