"""What was measured: rows of labels and values, printed as they come, kept as lines of JSON.

{"about": {"command": ..., "started": ..., "torch": ..., "cores": ...}}                                the first line
{"what": "ratio", "values": [1.02, 1.01, 1.03], "model": "resnet8", "method": "smofi", "workers": 1}   every other
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from shared.origin import about

Row = dict[str, Any]


class Sheet:
    """The rows of one program. Of several workers only the first prints and writes."""

    def __init__(self, path: Path | None, leads: bool = True) -> None:
        self.path, self.leads = path if leads else None, leads
        self.rows: list[Row] = []
        self.common: Row = {}
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"about": about(sys.argv)}) + "\n")

    def begin(self, **labels: Any) -> None:
        """All rows from here on have these labels."""
        self.common = labels
        self.say("\n" + ", ".join(map(str, labels.values())))

    def add(self, what: str, values: Sequence[float], form: str = ".3f", **labels: Any) -> None:
        """The values of one measurement, one for each repetition."""
        row = {"what": what, "values": list(values), **self.common, **labels}
        self.rows.append(row)
        if self.path:
            with self.path.open("a") as file:
                print(json.dumps(row), file=file)
        named = ", ".join(f"{key} {value}" for key, value in labels.items())
        self.say(f"  {named}: {what} {spread(values, form)}")

    def say(self, line: str) -> None:
        """A line of progress."""
        if self.leads:
            print(line, flush=True)


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Where the rows of a file come from, and the rows."""
    first, *rows = map(json.loads, path.read_text().splitlines())
    return first["about"], rows


def pick(rows: Iterable[Row], what: str, **labels: Any) -> list[Row]:
    """The rows that are about this, in their order.

    >>> pick([{"what": "ratio", "values": [1.0], "workers": 1}], "ratio", workers=2)
    []
    """
    wanted = {"what": what, **labels}
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def cell(rows: Iterable[Row], what: str, form: str = ".3f", **labels: Any) -> str:
    """The one row about this as median and spread, nothing if there is none."""
    found = pick(rows, what, **labels)
    return spread(found[0]["values"], form) if found else ""


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """The median, and in brackets the least and the most.

    >>> spread([1.0, 3.0, 2.0], ".1f")
    '2.0 (1.0 to 3.0)'
    """
    low, middle, high = (format(value, form) for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def markdown(headings: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table.

    >>> print(markdown(["model", "seconds"], [["cnn", 2]]))
    | model | seconds |
    |---|---|
    | cnn | 2 |
    """
    drawn = [headings, ["---"] * len(headings), *lines]
    return "\n".join("|" + "|".join(f" {cell} " if row[0] != "---" else "---" for cell in row) + "|" for row in drawn)
