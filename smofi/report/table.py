"""The measures of several runs as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from smofi.report.measures import Row
from smofi.report.names import Name, NamesTable
from smofi.report.numbers import (
    UNKNOWN,
    TimeUnit,
    four_digits,
    one_decimal,
    percent,
    percent_with_spread,
    speed_up,
    three_digits,
    time_unit,
)


def results_table(rows: Sequence[Row], *, title: str | None = None) -> Table:
    """The rows for the terminal; the best accuracy, the best mean and the fewest rounds and hours are bold.

    >>> from smofi.report.history import History
    >>> from smofi.report.measures import measure
    >>> results_table(measure([History("fedavg", [0.5, 0.8])])).row_count
    1
    """
    several = any(row.seeds > 1 for row in rows)
    hours = max((row.hours for row in rows if row.hours is not None), default=None)
    unit = time_unit(3600 * (hours or 0.0))
    target = percent(rows[0].target) if len({row.target for row in rows}) == 1 else "target"
    drawn = NamesTable(title=title, title_justify="left")
    drawn.add_column("method")
    headings = ["best", "mean of rounds", f"rounds to {target}", "speed-up", "seconds"]
    headings[4:4] = [f"virtual {unit.name} to {target}", f"virtual {unit.name}"] if hours is not None else []
    for heading in headings:
        whole = (
            heading == "speed-up" and hours is not None
        )  # where room is short, the other headings can wrap between words
        drawn.add_column(heading, justify="right", overflow="fold", no_wrap=whole)
    if several:
        drawn.add_column("seeds", justify="right")
    highest_best = max((row.best for row in rows), default=0.0)
    highest_mean = max((row.mean for row in rows), default=0.0)
    fewest = min((row.rounds for row in rows if row.rounds is not None), default=None)
    soonest = min((row.hours_to for row in rows if row.hours_to is not None), default=None)
    for row in rows:
        cells = [
            _bold(percent_with_spread(row.best, row.best_std), row.best == highest_best),
            _bold(percent(row.mean), row.mean == highest_mean),
            _bold(four_digits(row.rounds) if row.rounds is not None else f">{row.budget}", row.rounds == fewest),
            speed_up(row.speed_up),
            one_decimal(row.seconds),
        ]
        if hours is not None:
            to_target, in_all = _virtual(row, unit)
            cells[4:4] = [_bold(to_target, row.hours_to == soonest), in_all]
        drawn.add_row(Name(row.name), *cells, *([str(row.seeds)] if several else []))
    return drawn


def _virtual(row: Row, unit: TimeUnit) -> tuple[str, str]:
    """Virtual time to the target and in all."""
    if row.hours is None:
        return UNKNOWN, UNKNOWN

    def shown(hours: float) -> str:
        return three_digits(3600 * hours / unit.seconds)

    in_all = shown(row.hours)
    return f">{in_all}" if row.hours_to is None else shown(row.hours_to), in_all


def _bold(text: str, marked: bool) -> str:
    return f"[bold]{text}[/bold]" if marked else text
