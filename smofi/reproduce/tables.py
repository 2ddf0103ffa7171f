"""An item's panels as tables: our numbers, and the paper's beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from smofi.report.measures import Row
from smofi.report.numbers import UNKNOWN, TimeUnit, three_digits, time_unit
from smofi.reproduce.grid import STAR, Grid
from smofi.reproduce.items import Item, Line
from smofi.reproduce.items.parts import HOURS
from smofi.reproduce.measured import Measured
from smofi.reproduce.paper import published


def table_of(item: Item, measured: Measured) -> Grid:
    """A panel's table. Of the lines on one base, the best accuracy, the best mean and the fewest rounds are bold."""
    panel, rows = measured.panel, measured.rows
    unit = _unit(rows.values()) if HOURS in item.draw else None
    setups = panel.beside if item.published else ()
    own = ["best accuracy", "mean over rounds", "R", "R by seed", "R↑", *([f"T, {unit.name}"] if unit else [])]
    grid = Grid(["method", *own, *(f"paper: {setup}" for setup in setups)], title=panel.title, optional=len(own) + 2)
    for line in panel.lines:
        row = rows.get(line)
        cells = _cells(row, line, measured, unit) if row else [UNKNOWN] * len(own)
        grid.add([line.label, *cells, *(_paper(item, setup, line) for setup in setups)])
    return grid


def readme_table(measured: Measured) -> Grid:
    """A short table for README: FedAvg and what is added to it."""
    near = [line for line, row in measured.rows.items() if row.base == measured.rows[measured.baseline].base]
    grid = Grid(["method", "best accuracy", "mean over rounds", "R", "R by seed", "R↑"])
    for line in near:
        grid.add([line.label, *_cells(measured.rows[line], line, measured, None)])
    return grid


def _cells(row: Row, line: Line, measured: Measured, unit: TimeUnit | None) -> list[str]:
    complete = [other for other in measured.rows.values() if other.seeds == len(measured.seeds)]
    near = [other for other in complete if other.base == row.base]
    missed = f">{row.budget}"
    cells = [
        _bold(f"{_spread(row.best, row.best_std)} %", row, near, lambda one: one.best),
        _bold(f"{_spread(row.mean, row.mean_std)} %", row, near, lambda one: one.mean),
        _bold(missed if row.rounds is None else f"{row.rounds:.1f}", row, near, lambda one: _less(one.rounds)),
        ", ".join(missed if rounds is None else str(rounds) for rounds in measured.rounds_by_seed(line).values()),
        UNKNOWN if row.speed_up is None else f"{row.speed_up:.2f}x",
    ]
    if unit:
        hours = _bold(_hours(row, unit), row, near, lambda one: _less(one.hours_to))
        cells.append(hours)
    return cells


def _bold(text: str, row: Row, near: Sequence[Row], value: Callable[[Row], float | None]) -> str:
    known = [found for one in near if (found := value(one)) is not None]
    best = row in near and len(known) > 1 and value(row) == max(known)
    return f"{STAR}{text}" if best else text


def _less(value: float | None) -> float | None:
    return None if value is None else -value


def _spread(mean: float, deviation: float | None) -> str:
    return f"{100 * mean:.1f}" if deviation is None else f"{100 * mean:.1f} ± {100 * deviation:.1f}"


def _unit(rows: Iterable[Row]) -> TimeUnit | None:
    longest = max((row.hours for row in rows if row.hours is not None), default=None)
    return None if longest is None else time_unit(3600 * longest)


def _hours(row: Row, unit: TimeUnit) -> str:
    if row.hours is None:
        return UNKNOWN
    hours = row.hours if row.hours_to is None else row.hours_to
    return (">" if row.hours_to is None else "") + three_digits(3600 * hours / unit.seconds)


def _paper(item: Item, setup: str, line: Line) -> str:
    found = published(item.published).get((setup, line.published or line.label))
    return found.text if found else UNKNOWN
