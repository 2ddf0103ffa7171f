"""What methods are called in tables and figures: as their papers write them, with parameters only where two methods
differ in nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from smofi.errors import InputError
from smofi.methods import bare_base
from smofi.report.names import parts_of
from smofi.spec import Call, read_calls

WRITTEN = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fednar": "FedNAR",
    "clip": "Clipping",
    "fedavgm": "FedAvgM",
    "slowmo": "SlowMo",
    "fednag": "FedNAG",
    "smofi": "SMoFi",
    "sflv1": "SFLV1",
    "sflv2": "SFLV2",
    "mergesfl": "MergeSFL",
}
PLAIN = "fedavg"
NUMBER = re.compile(r"(?<=[=(, ])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SPLIT = ("sflv1", "sflv2", "mergesfl")
"""Methods that stand for themselves and are no plugin of a base."""


def titles(names: Sequence[str]) -> dict[str, str]:
    """A title for each of these methods.

    >>> list(titles(["fedavg", "fedprox(mu=0.01)+smofi"]).values())
    ['FedAvg', 'FedProx + SMoFi']
    >>> list(titles(["smofi(alpha=-1, global_momentum=0.3)", "smofi(global_momentum=0.3)"]).values())
    ['SMoFi (alpha=-1)', 'SMoFi']
    """
    parts = {name: _parts(name) for name in names}
    found = {}
    for name, own in parts.items():
        alike = [other for other in parts.values() if [call.name for call in other] == [call.name for call in own]]
        shared = [set.intersection(*(set(_given(other[place])) for other in alike)) for place in range(len(own))]
        found[name] = " + ".join(
            _title(call, [one for one in _given(call) if one not in common])
            for call, common in zip(own, shared, strict=True)
        )
    return found


def rows_by_base(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The methods grouped by their bare base, as the paper's table has them: FedAvg's first, the base on top.

    >>> rows_by_base(["fednar+smofi", "smofi", "fednar", "fedavg"])
    [('fedavg', ['fedavg', 'smofi']), ('fednar', ['fednar', 'fednar+smofi'])]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(bare_base(name), []).append(name)
    order = sorted(groups, key=lambda base: base != PLAIN)
    return [(base, sorted(groups[base], key=_place)) for base in order]


def _place(name: str) -> tuple[int, list[str], list[float]]:
    """Where a method stands below its base: the base first, then ours as in `WRITTEN`, then others; those that differ
    in their numbers alone by these.

    >>> sorted(["smofi(alpha=-1)", "smofi(alpha=-10)", "fedavg", "smofi(alpha=-5)", "fedavgm"], key=_place)
    ['fedavg', 'fedavgm', 'smofi(alpha=-10)', 'smofi(alpha=-5)', 'smofi(alpha=-1)']
    """
    added = [part.partition("(")[0] for part in plugins_of(name)]
    known = list(WRITTEN)
    place = known.index(added[0]) if added and added[0] in known else len(known) * bool(added)
    return place, NUMBER.split(name), [float(number) for number in NUMBER.findall(name)]


def label(name: str, title: str) -> str:
    """A method in a group below its base: a plugin has a plus.

    >>> label("fedprox(mu=0.1)+smofi", "FedProx + SMoFi"), label("slowmo", "SlowMo"), label("sflv2", "SFLV2")
    ('+ SMoFi', '+ SlowMo', 'SFLV2')
    """
    added = plugins_of(name)
    if not added or _parts(name)[0].name in SPLIT:
        return title
    called = zip(parts_of(name), title.split(" + "), strict=True)
    return " ".join(f"+ {words}" for part, words in called if part in added)


def plugins_of(name: str) -> list[str]:
    """What is added to the bare base; nothing if that is all.

    >>> plugins_of("fedprox(mu=0.1)+smofi"), plugins_of("fedprox(mu=0.1)"), plugins_of("slowmo")
    (['smofi'], [], ['slowmo'])
    """
    return [part for part in parts_of(name) if part != PLAIN and bare_base(part) == PLAIN]


def _parts(name: str) -> list[Call]:
    try:
        return read_calls("method", name, "smofi")
    except InputError:  # not a method, but the name that a curve was given
        return [Call(name)]


def _given(call: Call) -> list[str]:
    return [*map(str, call.args), *(f"{key}={value}" for key, value in call.kwargs)]


def _title(call: Call, parameters: Sequence[str]) -> str:
    written = WRITTEN.get(call.name, call.name)
    return f"{written} ({', '.join(parameters)})" if parameters else written
