"""Sentences that follow from the numbers: who is first in how many seeds, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from smofi.plural import plural
from smofi.report.comparing.paired import Difference, paired
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
            best = max((line for line in near if line is not ours), key=lambda line: measured.rows[line].mean)
            sentences += [_first(measured, ours, near)]
            sentences += [_ahead(measured, ours, other) for other in dict.fromkeys([near[0], best])]
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
    """By how much, seed by seed, with the interval of `smofi compare`."""
    found = paired(measured.histories[ours], measured.histories[base])
    assert found
    with_intervals = ", with 95 % intervals" if len(found.seeds) > 1 else ""
    return (
        f"{ours.label} against {base.label}, seed by seed{with_intervals}: best accuracy {_points(found.best)}, mean "
        f"over rounds {_points(found.mean)}."
    )


def _points(difference: Difference) -> str:
    """A difference of shares, in points of percent.

    >>> _points(Difference(0.02, -0.001, 0.041)), _points(Difference(0.01))
    ('+2.0 points (-0.1 to +4.1)', '+1.0 points')
    """
    between = (
        ""
        if difference.low is None or difference.high is None
        else f" ({_signed(difference.low)} to {_signed(difference.high)})"
    )
    return f"{_signed(difference.mean)} points{between}"


def _signed(share: float) -> str:
    """
    >>> _signed(0.0123), _signed(-0.0123), _signed(-0.0001)
    ('+1.2', '-1.2', '0.0')
    """
    rounded = round(100 * share, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


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
    steadiest = max(varied, key=lambda line: rows[line].mean)
    fastest = [line for line in varied if rows[line].rounds is not None]
    sentences = [
        f"Mean best accuracy is above {base.label}'s at {len(above)} of {len(varied)} settings, the mean over rounds "
        f"at {len(steady)}.",
        f"The best accuracy is highest with {highest.label} ({100 * rows[highest].best:.1f} %), the mean over rounds "
        f"with {steadiest.label} ({100 * rows[steadiest].mean:.1f} %).",
        _ahead(measured, steadiest, base),
    ]
    if fastest:
        quick = min(fastest, key=lambda line: rows[line].rounds or 0)
        sentences.append(f"The target is reached soonest with {quick.label} (R {rows[quick].rounds:.1f}).")
    return sentences + _same_value(measured, varied)


def _same_value(measured: Measured, varied: Sequence[Line]) -> list[str]:
    """Two methods at the same values, if there are two."""
    groups = list(dict.fromkeys(line.group for line in varied if line.group))
    if len(groups) != 2:
        return []
    one, other = ({line.value: measured.rows[line] for line in varied if line.group == group} for group in groups)
    pairs = [(one[value], other[value]) for value in one if value in other]
    best = sum(first.best > second.best for first, second in pairs)
    mean = sum(first.mean > second.mean for first, second in pairs)
    sooner = sum(_less(first.rounds, second.rounds) for first, second in pairs)
    return [
        f"Both have all seeds at {plural(len(pairs), 'value')}: {groups[0]} is above {groups[1]} in mean best accuracy "
        f"at {best}, in the mean over rounds at {mean}, and needs fewer rounds to the target at {sooner}."
    ]


def _less(one: float | None, other: float | None) -> bool:
    """Whether one took fewer rounds; None is a target that was missed.

    >>> _less(3.0, None), _less(None, 3.0), _less(3.0, 3.0)
    (True, False, False)
    """
    return one is not None and (other is None or one < other)
