"""The measures of several runs as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

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


def results_table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """The rows for the terminal, and below them what the target is. Of several, the best value, the best mean and the
    fewest rounds and hours are bold. Where no row has a speed-up, there is no column for it.

    >>> from smofi.report.history import History
    >>> from smofi.report.measures import measure
    >>> results_table(measure([History("fedavg", [0.5, 0.8])])).caption
    "target: 72.0%, 90% of fedavg's best"
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
    columns = {
        _best_of(metric): _highest(best, [row.best for row in rows]),
        "mean of rounds": _highest([metric.text(row.mean) for row in rows], [row.mean for row in rows]),
    }
    for other in rows[0].others:
        values = [row.others[other] for row in rows]
        columns[_best_of(other)] = _highest([other.text(value) for value in values], values)
    taken = [row.rounds for row in rows]
    to_target = [f">{row.budget}" if row.rounds is None else four_digits(row.rounds) for row in rows]
    columns["rounds to target"] = _lowest(to_target, taken)
    if len(rows) > 1 and any(row.speed_up is not None for row in rows):
        columns["speed-up"] = [speed_up(row.speed_up) for row in rows]
    if unit is not None:
        times = [_virtual(row, unit) for row in rows]
        to_target = _lowest([time for time, _ in times], [row.hours_to for row in rows])
        columns |= {f"virtual {unit.name} to target": to_target, f"virtual {unit.name}": [time for _, time in times]}
    columns["seconds"] = [one_decimal(row.seconds) for row in rows]
    if any(row.seeds > 1 for row in rows):
        columns["seeds"] = [str(row.seeds) for row in rows]
    return columns


def _best_of(metric: Scale) -> str:
    """The heading of a metric's best value.

    >>> _best_of(Scale("accuracy", share=True)), _best_of(Scale("worst client", share=True))
    ('best accuracy', 'worst client at best')
    """
    return f"{metric.name} at best" if metric.name.startswith("worst") else f"best {metric.name}"


def _caption(rows: Sequence[Row]) -> str:
    """What the target is.

    >>> from smofi.report.history import History
    >>> from smofi.report.measures import measure
    >>> _caption(measure([History("fedavg", [0.5])], target=0.4))
    'target: 40.0%'
    """
    first = rows[0]
    if len({row.target for row in rows}) > 1 or first.seeds > 1:
        return f"target: {first.target_is} with the same seed" if first.target_is else ""
    target = f"target: {first.metric.text(first.target)}"
    return _plain(f"{target}, {first.target_is}" if first.target_is else target)


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
