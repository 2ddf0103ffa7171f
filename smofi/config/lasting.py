"""Keep the meaning of a run's config.yaml when a default changes.

A run's file writes out the parameters whose default was once another: sflv2(turns='client'), not sflv2;
dirichlet(0.2, balance=True), not dirichlet(0.2); with a full clock phones(rtt_ms=28), not phones. A file that does not
was written by an earlier version, and means what it meant then. This holds for the files of runs alone: in a user's own
file, and on the command line, names have the defaults of today.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from smofi.clock.phones import NAME as PHONES
from smofi.clock.phones import RTT_MS, Phones
from smofi.config.config import Config
from smofi.data.partitions.kinds import dirichlet
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.methods import METHODS
from smofi.methods.registry import EXAMPLE
from smofi.spec import read_calls

FORMER: Mapping[str, Mapping[str, Any]] = {"sflv2": {"turns": "step"}, "dirichlet": {"balance": False}}
"""The methods and partitions with a default that has changed, and what it was."""

WITHOUT_TRIPS = str(Phones(rtt_ms=0))
"""What phones were under a full clock: no round trip was charged."""


def written_out(config: Config) -> dict[str, Any]:
    """Return the settings that a run's file has in other words.

    >>> written_out(Config(method=["fedprox(mu=0.1)+sflv2", "smofi"], partition="dirichlet(0.2)", clock="full"))
    {'method': ("fedprox(mu=0.1)+sflv2(turns='client')", 'smofi'), 'partition': 'dirichlet(0.2, balance=True)', \
'devices': 'phones(rtt_ms=28)'}
    """
    builders: Mapping[str, Callable[..., Any]] = {**METHODS, "dirichlet": dirichlet}
    today = {
        name: {key: inspect.signature(builders[name]).parameters[key].default for key in former}
        for name, former in FORMER.items()
    }
    timed = config.clock == "full" and config.devices == PHONES
    return {
        "method": tuple(_filled(method, today) for method in config.method),
        "partition": _filled(config.partition, today),
        "devices": f"{PHONES}(rtt_ms={RTT_MS:g})" if timed else config.devices,
    }


def as_begun(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a run's file as they were meant when it was written.

    >>> as_begun({"method": ["fedavg", "sflv2"], "partition": "dirichlet(0.2)", "rounds": 3})
    {'method': ['fedavg', "sflv2(turns='step')"], 'partition': 'dirichlet(0.2, balance=False)', 'rounds': 3}
    """
    meant = {**settings}
    if settings.get("clock") == "full" and settings.get("devices") == PHONES:
        meant["devices"] = WITHOUT_TRIPS
    for name in ("method", "partition"):
        if isinstance(given := settings.get(name), str):
            meant[name] = _filled(given, FORMER)
        elif isinstance(given, list):
            meant[name] = [_filled(one, FORMER) if isinstance(one, str) else one for one in given]
    return meant


def has_changed(*values: str) -> bool:
    """Tell whether an earlier version may have written one of these in other words.

    >>> has_changed("fedprox(mu=0.1)+sflv2(turns='step')"), has_changed("smofi", "dirichlet(0.2)", "phones")
    (True, False)
    """
    former = [f"{key}={value!r}" for given in FORMER.values() for key, value in given.items()]
    return any(words in value for words in (*former, WITHOUT_TRIPS) for value in values)


def _filled(text: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Write out these parameters where a method or a partition does not give its own. In a run's file, parameters have
    their names."""
    if not any(name in text for name in FORMER) or text.startswith(SAVED):
        return text
    calls = read_calls("method", text, EXAMPLE)
    return "+".join(
        str(replace(call, kwargs=tuple({**values.get(call.name, {}), **dict(call.kwargs)}.items()))) for call in calls
    )
