"""What a comparison has found, as a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

import numpy as np
from safetensors.numpy import load_file

Arrays: TypeAlias = Mapping[str, np.ndarray]


@dataclass
class Measured:
    """All runs of one contestant on one workload. `distance` is that of its weights from the reference's."""

    name: str
    peer: bool
    distance: float = 0.0
    memory: float = 0.0
    rounds: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def add(self, result: dict[str, Any]) -> None:
        """A run that was watched for its memory is not timed."""
        self.accuracies.append(result["accuracies"][-1])
        if result["memory"] is not None:
            self.memory = result["memory"]
            return
        self.rounds.append(seconds_per_round(result))
        self.firsts.append(result["first_round"])
        self.totals.append(result["total"])

    def progress(self, result: dict[str, Any]) -> str:
        """A line of progress."""
        if result["memory"] is not None:
            return f"{self.name} held {result['memory'] / 2**20:.0f} MiB"
        return f"{self.name} took {seconds_per_round(result):.3f} s a round, {result['total']:.1f} s in all"


def seconds_per_round(result: dict[str, Any]) -> float:
    """The mean over the rounds after the first, which still loads and starts things."""
    return fmean(result["seconds"][1:] or result["seconds"])


def table(measured: Sequence[Measured]) -> str:
    """A row for each; a speed is that of the fastest peer's round over this one's, repetition by repetition."""
    fastest = min((one for one in measured if one.peer), key=lambda one: median(one.rounds), default=None)
    lines = [
        "| | s a round | speed | first round after, s | total, s | memory, MiB | accuracy | weights off by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        speeds = [theirs / own for theirs, own in zip(fastest.rounds, one.rounds, strict=True)] if fastest else []
        cells = [
            spread(one.rounds, ".3f"),
            spread(speeds, ".2f") if speeds else "",
            spread(one.firsts, ".1f"),
            spread(one.totals, ".1f"),
            f"{one.memory / 2**20:.0f}",
            spread(one.accuracies, ".4f"),
            f"{one.distance:.0e}",
        ]
        lines.append(f"| {one.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """The median, and in brackets the least and the most."""
    low, middle, high = (format(value, form) for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def distance(weights: Path, reference: Path, initial: Path) -> float:
    """How far apart the models in two files are, beside how far the reference has come."""
    ours, theirs = load_file(weights), load_file(reference)
    if ours.keys() != theirs.keys():
        raise ValueError(f"{weights} and {reference} have different tensors: {sorted(ours.keys() ^ theirs.keys())}")
    return apart(ours, theirs, load_file(initial))


def apart(ours: Arrays, theirs: Arrays, start: Arrays) -> float:
    """‖W - R‖ / ‖R - W₀‖."""
    names = [name for name, tensor in start.items() if tensor.dtype.kind == "f"]
    between = sum(float(np.square(ours[name] - theirs[name], dtype=np.float64).sum()) for name in names)
    come = sum(float(np.square(theirs[name] - start[name], dtype=np.float64).sum()) for name in names)
    return float(np.sqrt(between / come))
