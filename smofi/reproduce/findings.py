"""Sentences that follow from the numbers: who is first in how many seeds, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from smofi.plural import plural
from smofi.report.history import History
from smofi.reproduce.items import Line
from smofi.reproduce.measured import Measured

OURS = "SMoFi"


def findings(measured: Measured) -> list[str]:
    """What a panel's numbers say. Only lines with all the panel's seeds are compared."""
    complete = [line for line in measured.panel.lines if len(measured.histories[line]) == len(measured.seeds) > 0]
    if len(complete) < 2 or measured.baseline not in complete:
        return []
    if any(line.value for line in complete):
        return _along(measured, complete)
    sentences = []
    for base in dict.fromkeys(measured.rows[line].base for line in complete):
        near = [line for line in complete if measured.rows[line].base == base]
        ours = next((line for line in near if line.label.split(" + ")[-1] == OURS), None)
        if ours and len(near) > 1:
            sentences += [_first(measured, ours, near), _ahead(measured, ours, near[0])]
    if not sentences and len(complete) == 2:
        sentences = [_ahead(measured, complete[1], complete[0])]
    return sentences


def _first(measured: Measured, ours: Line, near: Sequence[Line]) -> str:
    """In how many seeds ours is ahead of all others."""
    seeds = measured.seeds
    reached = [_place(ours, {line: _sooner(measured.rounds_by_seed(line)[seed]) for line in near}) for seed in seeds]
    best = [_place(ours, {line: max(_of(measured, line, seed).measured) for line in near}) for seed in seeds]
    mean = [_place(ours, {line: fmean(_of(measured, line, seed).measured) for line in near}) for seed in seeds]
    return (
        f"Of these {plural(len(near), 'method')}, {ours.label} reaches the target first in {_count(reached)}, has the "
        f"highest mean over rounds in {_count(mean)} and the best accuracy in {_count(best)} of "
        f"{plural(len(seeds), 'seed')}."
    )


def _place(ours: Line, values: dict[Line, float]) -> str:
    others = max(value for line, value in values.items() if line is not ours)
    return "first" if values[ours] > others else "level" if values[ours] == others > float("-inf") else "behind"


def _sooner(rounds: int | None) -> float:
    return float("-inf") if rounds is None else -rounds


def _count(places: Sequence[str]) -> str:
    """How often first.

    >>> _count(["first", "level", "behind"]), _count(["first"])
    ('1 (level with another in 1)', '1')
    """
    level = places.count("level")
    return str(places.count("first")) + (f" (level with another in {level})" if level else "")


def _ahead(measured: Measured, ours: Line, base: Line) -> str:
    """By how much, seed by seed."""
    best = _paired(measured, ours, base, lambda history: max(history.measured))
    mean = _paired(measured, ours, base, lambda history: fmean(history.measured))
    return (
        f"{ours.label} against {base.label}, seed by seed: {_points(best)} points of best accuracy, {_points(mean)} "
        "points of mean accuracy over rounds."
    )


def _paired(measured: Measured, one: Line, other: Line, value: Callable[[History], float]) -> list[float]:
    return [value(_of(measured, one, seed)) - value(_of(measured, other, seed)) for seed in measured.seeds]


def _points(differences: Sequence[float]) -> str:
    """Mean and standard deviation of differences.

    >>> _points([0.01, 0.03]), _points([0.01])
    ('+2.0 ± 1.4', '+1.0')
    """
    mean = f"{100 * fmean(differences):+.1f}"
    return f"{mean} ± {100 * stdev(differences):.1f}" if len(differences) > 1 else mean


def _of(measured: Measured, line: Line, seed: int) -> History:
    return next(history for history in measured.histories[line] if history.seed == seed)


def _along(measured: Measured, lines: Iterable[Line]) -> list[str]:
    """Of lines that differ in one value."""
    rows, base = measured.rows, measured.baseline
    varied = [line for line in lines if line.value]
    if len(varied) < 2:
        return []
    above = [line for line in varied if rows[line].best > rows[base].best]
    steady = [line for line in varied if rows[line].mean > rows[base].mean]
    highest = max(varied, key=lambda line: rows[line].best)
    fastest = [line for line in varied if rows[line].rounds is not None]
    sentences = [
        f"Mean best accuracy is above {base.label}'s at {len(above)} of {len(varied)} settings, the mean over rounds "
        f"at {len(steady)}.",
        f"The best accuracy is highest with {highest.label} ({100 * rows[highest].best:.1f} %).",
    ]
    if fastest:
        quick = min(fastest, key=lambda line: rows[line].rounds or 0)
        sentences.append(f"The target is reached soonest with {quick.label} (R {rows[quick].rounds:.1f}).")
    return sentences
