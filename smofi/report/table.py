"""The measures of several runs as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from smofi.plural import plural
from smofi.report.history import Scale
from smofi.report.measures import Row
from smofi.report.names import Name, NamesTable
from smofi.report.numbers import (
    UNKNOWN,
    TimeUnit,
    four_digits,
    one_decimal,
    speed_up,
    three_digits,
    time_unit,
)

LISTED = 5
"""Up to this many seeds, each one's rounds to the target are shown."""


def results_table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """The rows for the terminal, and below them what the target is. The mean over rounds, which is the steadiest
    measure, comes first. Of several, the best mean, the best value and the fewest rounds and hours are bold. Where no
    row has a speed-up, there is no column for it.

    >>> from smofi.report.history import History
    >>> from smofi.report.measures import measure
    >>> results_table(measure([History("fedavg", [0.5, 0.8])])).caption
    "The target is 72.0%: 90% of fedavg's best accuracy."
    """
    hours = max((row.hours for row in rows if row.hours is not None), default=None)
    columns = _columns(rows, time_unit(3600 * hours) if hours is not None else None)
    drawn = NamesTable(title=title, title_justify="left", caption=_caption(rows), caption_justify="left")
    drawn.add_column("method")
    for heading in columns:
        drawn.add_column(_plain(heading), justify="right")
    for number, row in enumerate(rows):
        drawn.add_row(Name(row.name), *(cells[number] for cells in columns.values()))
    return drawn


def _columns(rows: Sequence[Row], unit: TimeUnit | None) -> dict[str, list[str]]:
    """The cells of each column by its heading; with a clock, there is a unit of virtual time."""
    metric = rows[0].metric
    best = [metric.with_spread(row.best, row.best_std) for row in rows]
    means = [metric.with_spread(row.mean, row.mean_std) for row in rows]
    columns = {
        "mean over rounds": _highest(means, [row.mean for row in rows]),
        _best_of(metric): _highest(best, [row.best for row in rows]),
    }
    for other in rows[0].others:
        values = [row.others[other] for row in rows]
        columns[_best_of(other)] = _highest([other.text(value) for value in values], values)
    taken = [row.rounds for row in rows]
    columns["rounds to target"] = _lowest([_rounds(row.rounds, row) for row in rows], taken)
    if unit is None and 1 < max(row.seeds for row in rows) <= LISTED:  # virtual time needs the room
        columns["seed by seed"] = [", ".join(_rounds(one, row) for one in row.rounds_by_seed) for row in rows]
    if len(rows) > 1 and any(row.speed_up is not None for row in rows):
        columns["speed-up"] = [speed_up(row.speed_up) for row in rows]
    if unit is not None:
        times = [_virtual(row, unit) for row in rows]
        to_target = _lowest([time for time, _ in times], [row.hours_to for row in rows])
        columns |= {f"virtual {unit.name} to target": to_target, f"virtual {unit.name}": [time for _, time in times]}
    columns["seconds a run"] = [one_decimal(row.seconds) for row in rows]
    if len({row.seeds for row in rows}) > 1:
        columns["seeds"] = [str(row.seeds) for row in rows]
    return columns


def _rounds(rounds: float | None, row: Row) -> str:
    return f">{row.budget}" if rounds is None else four_digits(rounds)


def _best_of(metric: Scale) -> str:
    """The heading of a metric's best value.

    >>> _best_of(Scale("accuracy", share=True)), _best_of(Scale("worst client", share=True))
    ('best accuracy', 'worst client at best')
    """
    return f"{metric.name} at best" if metric.name.startswith("worst") else f"best {metric.name}"


def _caption(rows: Sequence[Row]) -> str:
    """What the target is, what ± is, and what a speed-up is measured against where that differs.

    >>> from smofi.report.history import History
    >>> from smofi.report.measures import measure
    >>> _caption(measure([History("fedavg", [0.5])], target=0.4))
    'The target is 40.0%.'
    >>> _caption(measure([History("fedavg", [0.5], seed=seed) for seed in (0, 1)]))
    "The target is 90% of fedavg's best accuracy with the same seed; ± is the standard deviation over 2 seeds."
    """
    first = rows[0]
    most = max(row.seeds for row in rows)
    what = first.target_is and f"{first.target_is}{_of_the(first.metric)}"
    if len({row.target for row in rows}) > 1 or most > 1:
        target = f"{what} with the same seed" if what else first.metric.text(first.target)
    else:
        target = ": ".join(filter(None, (first.metric.text(first.target), what)))
    spread = f"; ± is the standard deviation over {plural(most, 'seed')}" if most > 1 else ""
    return _plain(f"The target is {target}{spread}.{_against(rows)}")


def _of_the(metric: Scale) -> str:
    return "" if metric.name.startswith("worst") else f" {metric.short}"


def _against(rows: Sequence[Row]) -> str:
    """What is compared with what, unless all are compared with the same."""
    others = [row for row in rows if row.speed_up is not None and row.base not in (None, row.name)]
    if len({row.base for row in others}) < 2:
        return ""
    last = others[-1]
    return f" A speed-up is against the bare base: that of {last.name} is {last.base}."


def _virtual(row: Row, unit: TimeUnit) -> tuple[str, str]:
    """Virtual time to the target and in all."""
    if row.hours is None:
        return UNKNOWN, UNKNOWN

    def shown(hours: float) -> str:
        return three_digits(3600 * hours / unit.seconds)

    in_all = shown(row.hours)
    return f">{in_all}" if row.hours_to is None else shown(row.hours_to), in_all


def _highest(texts: Sequence[str], values: Sequence[float | None]) -> list[str]:
    """The texts, of several the one of the highest value bold."""
    return _lowest(texts, [None if value is None else -value for value in values])


def _lowest(texts: Sequence[str], values: Sequence[float | None]) -> list[str]:
    lowest = min((value for value in values if value is not None), default=None)
    marked = [len(texts) > 1 and value is not None and value == lowest for value in values]
    return [f"[bold]{text}[/bold]" if bold else text for text, bold in zip(texts, marked, strict=True)]


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
