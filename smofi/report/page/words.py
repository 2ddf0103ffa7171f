"""The result in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smofi.plural import some_of
from smofi.report.comparing.paired import paired
from smofi.report.history import Scale
from smofi.report.measures import Row
from smofi.report.numbers import speed_up
from smofi.report.page.judging import Judged
from smofi.report.page.reading import FoundRun
from smofi.report.page.table import mean_rounds


def headline(judged: Judged) -> str:
    """Which method has the highest mean over rounds, whether its lead can be relied on, and how fast it reaches the
    target."""
    first, ranked = judged.winner, judged.alike
    if first is None:
        return _without_winner(judged)
    base = judged.row(first.base)
    other = base if base in ranked and base is not first else _second(ranked, first)
    some = f"Of the {len(ranked)} methods that can be compared so far, " if len(ranked) < len(judged.rows) else ""
    text = f"{some}{first.name} has the highest mean {first.metric.short} over rounds: {_mean(first)}, "
    text += f"against {_mean(other)} of {other.name}.{_speed(first, base)}"
    return f"{text} {_lead(judged, first, _second(ranked, first))} {_seeds(first)}"


def _lead(judged: Judged, first: Row, second: Row) -> str:
    """By how much the first is ahead of the next, seed by seed; a lead that may as well be chance is called so."""
    of = {row.name: [run.history for run in judged.runs if run.history.name == row.name] for row in (first, second)}
    found = paired(of[first.name], of[second.name])
    if found is None or found.mean.low is None or found.mean.high is None:
        return f"Its lead over {second.name} is that of one seed: no difference to rely on."
    gain, between = _points(first.metric, found.mean.mean, found.mean.low, found.mean.high)
    if found.mean.low > 0:
        return f"Seed by seed, it is {gain} ahead of {second.name}, the next; 95% interval {between}."
    return f"Its lead over {second.name}, the next, is no difference to rely on: {gain}, 95% interval {between}."


def _points(metric: Scale, mean: float, low: float, high: float) -> tuple[str, str]:
    """
    >>> _points(Scale("accuracy", share=True), 0.0123, -0.01, 0.0346)
    ('1.2 points', '-1.0 to 3.5')
    """
    if metric.share:
        return f"{100 * mean:.1f} points", f"{100 * low:.1f} to {100 * high:.1f}"
    return metric.text(mean), f"{metric.text(low)} to {metric.text(high)}"


def _without_winner(judged: Judged) -> str:
    if not judged.rows:
        return "Nothing has been measured yet."
    best = max(judged.rows, key=lambda row: row.best)
    if len(judged.rows) > 1:
        return "The methods cannot be ranked yet: they have not finished the same seeds and rounds. Figures are so far."
    sofar = " so far" if best.name in judged.marks else ""
    shown = best.metric.with_spread(best.best, best.best_std)
    return f"{best.name} reaches a best {best.metric.short} of {shown}{sofar}. {_seeds(best)}"


def _second(ranked: Sequence[Row], first: Row) -> Row:
    return max((row for row in ranked if row is not first), key=lambda row: row.mean)


def _mean(row: Row) -> str:
    return row.metric.with_spread(row.mean, row.mean_std)


def _speed(row: Row, base: Row | None) -> str:
    """How many rounds to the target, and how many times as fast as its base."""
    if row.rounds is None or row.speed_up is None or base is None or base is row or base.rounds is None:
        return ""
    faster = f": {speed_up(row.speed_up)} as fast" if row.speed_up > 1 else ""
    rounds = f"{mean_rounds(row.rounds)} rounds, {base.name} in {mean_rounds(base.rounds)}"
    return f" It reaches the target ({row.target_is}) in {rounds}{faster}."


def _seeds(row: Row) -> str:
    return f"Means ± standard deviations over {row.seeds} seeds." if row.seeds > 1 else "A single seed."


def warnings_about(found: Sequence[FoundRun]) -> list[tuple[str, str]]:
    """The runs that a reader must not take for finished and whole: what is the matter, and which they are.

    >>> warnings_about([FoundRun("a/smofi", None, "metrics.jsonl is missing"), FoundRun("b", None, "no manifest")])
    [('Damaged, not shown', 'a/smofi, b')]
    """
    kinds: dict[str, Callable[[FoundRun], bool]] = {
        "Still going, figures so far": lambda one: one.state == "still going",
        "Interrupted, figures so far": lambda one: one.state == "interrupted",
        "Diverged, curves end where a value is no number": lambda one: one.state == "diverged",
        "Damaged, not shown": lambda one: one.run is None,
        "Damaged in files that this page does not need": lambda one: one.run is not None and bool(one.damage),
    }
    named = [(kind, [one.label for one in found if is_so(one)]) for kind, is_so in kinds.items()]
    return [(kind, some_of(labels)) for kind, labels in named if labels]
