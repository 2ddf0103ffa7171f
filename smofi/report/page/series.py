"""Curves with bands, as data for the page: for each method the mean over its seeds, and its spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from smofi.engine.metrics import is_share
from smofi.report.bands import band
from smofi.report.history import History, Scale, finite
from smofi.report.numbers import time_unit
from smofi.report.show import Snapshot

MOST_POINTS = 400
"""Of a curve; of a longer one, the lowest and the highest of each stretch are kept."""

DIAGNOSTICS = {
    "update_divergence": "Divergence of the clients' updates",
    "momentum_alignment": "Alignment of the clients' momenta",
    "stale_share": "Stale share of the fused momentum",
    "gradient_norm": "Gradient norm, mean",
    "gradient_norm_max": "Gradient norm, largest",
}
LOSSES = {"loss": "test loss", "train_loss": "training loss"}

Values = list[float | None]
Measured = Callable[[Snapshot], Values]


def charts_of(runs: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """What was measured in each round, a chart each: the judged metric first, then further ones and the losses."""
    histories = [run.history for run in runs]
    charts = [_chart(Scale.of(histories), runs, lambda run: run.history.values)]
    for place, others in enumerate(zip(*(history.others for history in histories), strict=False)):
        charts.append(_chart(Scale.of(others), runs, _other(place)))
    charts += [_chart(Scale(title, share=False), runs, _field(name)) for name, title in LOSSES.items()]
    return [chart for chart in charts if chart["series"]]


def diagnostics_of(runs: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """A chart for each diagnostic that was recorded."""
    names = dict.fromkeys(name for run in runs for name in run.diagnostics)
    charts = [
        _chart(Scale(DIAGNOSTICS.get(name, name.replace("_", " ")), share=is_share(name)), runs, _diagnostic(name))
        for name in sorted(names, key=lambda name: [*DIAGNOSTICS, name].index(name))
    ]
    return [chart for chart in charts if chart["series"]]


def time_axis(runs: Sequence[Snapshot]) -> tuple[str, float] | None:
    """The unit of virtual time and its length in hours; None where no clock ran."""
    hours = [run.history.hours[-1] for run in runs if run.history.hours]
    if not hours or len(hours) < sum(bool(run.records) for run in runs):
        return None
    unit = time_unit(3600 * max(hours))
    return unit.name, unit.seconds / 3600


def _chart(scale: Scale, runs: Sequence[Snapshot], measured: Measured) -> dict[str, Any]:
    by_method: dict[str, list[Snapshot]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    axis = time_axis(runs)
    series = [_series(method, seeds, measured, axis) for method, seeds in by_method.items()]
    return {"title": scale.name, "share": scale.share, "series": [one for one in series if one["mean"]]}


def _series(
    method: str, runs: Sequence[Snapshot], measured: Measured, axis: tuple[str, float] | None
) -> dict[str, Any]:
    """The band of a method over the seeds that there are; `seeds` is how many of them have each point."""
    histories = [History(method, measured(run), hours=run.history.hours) for run in runs if run.records]
    if not histories:
        return {"mean": []}
    shown = band(histories, partial=True)
    means = {place: value for place, value in enumerate(shown.mean) if value is not None and math.isfinite(value)}
    kept = list(means)
    places = [kept[one] for one in kept_places(list(means.values()))]
    times: Values = [hours / axis[1] for hours in shown.hours] if axis else []
    mean, low, high = ([_short(column[place]) for place in places] for column in (shown.mean, shown.low, shown.high))
    drawn: dict[str, Any] = {"method": method, "round": [place + 1 for place in places], "mean": mean}
    drawn["seeds"] = [sum(len(finite(one.values[place : place + 1])) for one in histories) for place in places]
    if shown.seeds > 1:
        drawn |= {"low": low, "high": high}
    if axis:
        drawn["time"] = [_short(times[place]) for place in places]
    return drawn


def kept_places(values: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """The places of a curve that are drawn: all of a short one; of a long one the first, the last, and the lowest and
    the highest of each stretch.

    >>> kept_places([0.1, 0.2, 0.3]), kept_places([5, 1, 2, 9, 3, 4, 0, 7], most=4)
    ([0, 1, 2], [0, 1, 3, 6, 7])
    """
    if len(values) <= most:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    stretch = math.ceil(2 * len(values) / most)
    for start in range(0, len(values), stretch):
        places = range(start, min(start + stretch, len(values)))
        kept |= {min(places, key=values.__getitem__), max(places, key=values.__getitem__)}
    return sorted(kept)


def _other(place: int) -> Measured:
    return lambda run: run.history.others[place].values


def _field(name: str) -> Measured:
    return lambda run: [record.get(name) for record in run.records]


def _diagnostic(name: str) -> Measured:
    return lambda run: [(record.get("diagnostics") or {}).get(name) for record in run.records]


def _short(value: float | None) -> float:
    """Five significant digits, which is more than a picture shows."""
    assert value is not None
    return float(f"{value:.5g}")
