"""The runs that peers/compare.py has written, as the page of results shows them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from shared.goals import Goal, at_least, at_most
from shared.rows import Row

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))

import table as theirs


def table(rows: Sequence[Row]) -> str:
    """The table of each workload."""
    tables = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        measured: dict[str, theirs.Measured] = {}
        for row in (row for row in rows if row["workload"] == workload):
            name = row["contestant"]
            measured.setdefault(name, theirs.Measured(name, row["peer"], row["distance"])).add(row)
        tables.append(f"### {workload}\n\n{theirs.table(list(measured.values()))}")
    return "\n\n".join(tables)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Much faster than the fastest peer, and soon at work."""

    def of(workload: str, peer: bool, number: Callable[[Row], float]) -> list[float]:
        """The medians of those contestants."""
        timed = [row for row in rows if (row["workload"], row["peer"]) == (workload, peer) and row["memory"] is None]
        names = dict.fromkeys(row["contestant"] for row in timed)
        return [median(number(row) for row in timed if row["contestant"] == name) for name in names]

    found = []
    for workload, least in (("fashion", 1.5), ("cifar", 1.5), ("digits", 2.0)):
        own, others = (of(workload, peer, theirs.seconds_per_round) for peer in (False, True))
        speeds = [{"values": [min(others) / min(own)]}] if own and others else []
        found.append(at_least(f"{workload}: at least {least} times as fast as the fastest peer", speeds, least))
    firsts = [{"values": [first]} for first in of("digits", False, lambda row: float(row["first_round"]))]
    return [*found, at_most("digits: first round finished within 5 s of the command", firsts, 5.0, " s")]
