"""The form that all benchmarks share: rows of labels and values, printed as they come, kept as lines of JSON.

{"about": {"command": ..., "started": ..., "torch": ..., "cores": ...}}                                the first line
{"what": "ratio", "values": [1.02, 1.01, 1.03], "model": "resnet8", "method": "smofi", "workers": 1}   every other
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from smofi.experiment.provenance import provenance

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]
PLACES = ("--results", "--folder", "--picture")
"""Options that say where something lies on this machine, and nothing about what was measured."""


@dataclass(frozen=True)
class Goal:
    """What was aimed at, what was found, and whether that is enough; None where nothing was measured."""

    text: str
    found: str
    met: bool | None


class Sheet:
    """The rows of one program. In a crew only the first process has anything to say."""

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
        """One thing measured, as often as it was."""
        row = {"what": what, "values": list(values), **self.common, **labels}
        self.rows.append(row)
        if self.path:
            with self.path.open("a") as file:
                print(json.dumps(row), file=file)
        named = ", ".join(f"{key} {value}" for key, value in labels.items())
        self.say(f"  {named}: {what} {spread(values, form)}")

    def say(self, line: str) -> None:
        """A line for whoever waits."""
        if self.leads:
            print(line, flush=True)


def options(description: str | None, repetitions: int | None = None) -> argparse.ArgumentParser:
    """The command line that all programs understand."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repetitions", type=int, default=repetitions, help="as many as the model is worth if not given"
    )
    parser.add_argument("--results", type=Path, help="file for the rows, lines of JSON")
    return parser


def positive(text: str) -> int:
    """A whole number from one up, for argparse."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not accepted: expected a whole number >= 1")
    return number


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


def at_most(text: str, rows: Sequence[Row], limit: float, unit: str = "x") -> Goal:
    """A goal for the medians of these rows, the worst of which counts."""
    return _goal(text, rows, max, lambda worst: worst <= limit, unit)


def at_least(text: str, rows: Sequence[Row], limit: float, unit: str = "x") -> Goal:
    """The same the other way round."""
    return _goal(text, rows, min, lambda worst: worst >= limit, unit)


def _goal(text: str, rows: Sequence[Row], worst_of: Any, enough: Any, unit: str) -> Goal:
    if not rows:
        return Goal(text, "not measured", None)
    worst = worst_of(rows, key=lambda row: median(row["values"]))
    return Goal(text, spread(worst["values"]) + unit, enough(median(worst["values"])))


def about(command: Sequence[str]) -> dict[str, Any]:
    """What a result depends on beside the program: versions, commit, machine, time."""
    return {
        **provenance(shown(command)),
        "cores": os.cpu_count(),
        "cpu": cpu_name(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "vectors": torch.backends.cpu.get_cpu_capability(),
    }


def shown(command: Sequence[str]) -> str:
    """A command as one would type it in the project's folder, without the places where it puts things.

    >>> shown([str(ROOT / "benchmarks/fusion.py"), "--results", "a.jsonl", "--models", "digits"])
    'python benchmarks/fusion.py --models digits'
    """
    words = [os.path.relpath(command[0], ROOT)]
    for before, word in pairwise(command):
        if before not in PLACES and word not in PLACES:
            words.append(word)
    return "python " + shlex.join(words)


def cpu_name() -> str:
    """The processor's name as the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
