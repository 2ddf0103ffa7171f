"""HTML in which text can only be text: what is not made by `element` is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smofi.report.measures import Row
from smofi.report.names import pieces_of
from smofi.report.numbers import UNKNOWN, TimeUnit, one_decimal, speed_up, three_digits, time_unit
from smofi.report.page.reading import Judged

EMPTY = frozenset({"meta", "wbr"})  # elements without content and without an end


class Html(str):
    """Text that is HTML already."""


def element(tag: str, /, *content: str | Iterable[str], **attributes: Any) -> Html:
    """An element. `class_` is its class and `data_value` is data-value; an attribute that is None or False is left out,
    one that is True has no value.

    >>> element("td", "a < b & c", class_="name", data_value=3, hidden=False)
    '<td class="name" data-value="3">a &lt; b &amp; c</td>'
    """
    shown = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Html(f"<{tag}{shown}>" if tag in EMPTY else f"<{tag}{shown}>{joined(content)}</{tag}>")


def joined(content: Iterable[str | Iterable[str]]) -> Html:
    """Pieces of HTML and of text, one after the other.

    >>> joined(["<", element("b", "x"), ["&"]])
    '&lt;<b>x</b>&amp;'
    """
    return Html("".join(_piece(piece) for piece in content))


def _piece(piece: str | Iterable[str]) -> str:
    if isinstance(piece, Html):
        return piece
    return html.escape(piece) if isinstance(piece, str) else joined(piece)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


# --------------------------------------------------------------------------------------------------------------------
# Tables of the page: each in a box of its own that scrolls sideways, sorted by a press on a heading.


@dataclass(frozen=True)
class Cell:
    """What stands in a cell, and what it is sorted by: a number, or the text itself. None comes last."""

    content: str | Html
    value: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class Column:
    """A heading and the cells below it; of numbers, they stand to the right."""

    heading: str
    cells: Sequence[Cell]
    numeric: bool = True
    about: str = ""


def table(caption: str, columns: Sequence[Column]) -> Html:
    """A table that can be sorted by each column; the first one names the rows."""
    heads = [element("th", _head(column), scope="col", class_=_kind(column), aria_sort="none") for column in columns]
    rows = zip(*(column.cells for column in columns), strict=True)
    body = [
        element(
            "tr", [_cell(column, cell, first=not i) for i, (column, cell) in enumerate(zip(columns, row, strict=True))]
        )
        for row in rows
    ]
    drawn = element(
        "table", element("caption", caption), element("thead", element("tr", heads)), element("tbody", body)
    )
    return element("div", drawn, class_="box", tabindex="0", role="region", aria_label=caption)


def _head(column: Column) -> Html:
    return element("button", column.heading, type="button", title=column.about or None)


def _cell(column: Column, cell: Cell, *, first: bool) -> Html:
    content = element("strong", cell.content) if cell.strong else cell.content
    value = "" if column.numeric and cell.value is None else cell.value
    name = "th" if first else "td"
    return element(name, content, class_=_kind(column), data_value=value, scope="row" if first else None)


def _kind(column: Column) -> str | None:
    return "number" if column.numeric else None


def results(judged: Judged, caption: str) -> Html:
    """The measures of a setup's methods, a row for each; bold is the best of those that can be ranked."""
    rows = judged.rows
    metric = rows[0].metric
    columns = [
        Column("method", [Cell(_name(row, judged)) for row in rows], numeric=False),
        _column(f"mean {metric.short} over rounds", judged, [_spread(row, row.mean, row.mean_std) for row in rows], 1),
        _column(f"best {metric.short}", judged, [_spread(row, row.best, row.best_std) for row in rows], 1),
    ]
    for other in rows[0].others:
        values = [(other.text(row.others[other]), row.others[other]) for row in rows]
        columns.append(_column(f"best {other.short}", judged, values, 1))
    columns.append(_column("rounds to target", judged, [_rounds(row) for row in rows], -1))
    if any(row.speed_up is not None for row in rows):
        columns.append(
            _column(
                "speed-up",
                judged,
                [(speed_up(row.speed_up), row.speed_up) for row in rows],
                0,
                "rounds to target of the base, divided by those of the method",
            )
        )
    columns += _time_columns(judged)
    if any(row.seconds for row in rows):
        columns.append(
            _column(
                "seconds",
                judged,
                [(one_decimal(row.seconds), row.seconds) for row in rows],
                0,
                "time that training took on the computer",
            )
        )
    columns.append(_column("seeds", judged, [(str(row.seeds), float(row.seeds)) for row in rows], 0))
    return table(caption, columns)


def _time_columns(judged: Judged) -> list[Column]:
    """Virtual time to the target and in all, where a clock ran."""
    rows = judged.rows
    longest = max((row.hours for row in rows if row.hours is not None), default=None)
    if longest is None:
        return []
    unit = time_unit(3600 * longest)
    to_target = [_hours(row.hours_to, row.hours_to_std, unit, more_than=row.hours) for row in rows]
    in_all = [_hours(row.hours, None, unit) for row in rows]
    about = "virtual time on the clients' devices"
    return [
        _column(f"{unit.name} to target", judged, to_target, -1, about),
        _column(f"{unit.name} in all", judged, in_all, 0, about),
    ]


def _column(
    heading: str, judged: Judged, texts: Sequence[tuple[str, float | None]], better: int, about: str = ""
) -> Column:
    """A column of numbers. `better` is 1 where more is better, -1 where less is, 0 where neither is; the best is that
    of the methods that can be ranked."""
    ranked = [row in judged.alike for row in judged.rows]
    known = [better * value for (_, value), fit in zip(texts, ranked, strict=True) if fit and value is not None]
    best = max(known) if better and sum(ranked) > 1 and known else None
    cells = [
        Cell(text, value, strong=fit and value is not None and better * value == best)
        for (text, value), fit in zip(texts, ranked, strict=True)
    ]
    return Column(heading, cells, about=about)


def _name(row: Row, judged: Judged) -> Html:
    mark = judged.marks.get(row.name)
    badge = [" ", element("span", mark, class_="badge warning")] if mark else []
    return element("span", breakable(row.name), *badge, class_="method")


def breakable(name: str) -> Html:
    """A method's name that is broken between its parts only.

    >>> breakable("fedprox(mu=0.1)+smofi")
    'fedprox(mu=0.1)+<wbr>smofi'
    """
    first, *others = pieces_of(name)
    return joined([first, *(joined([element("wbr"), piece]) for piece in others)])


def _spread(row: Row, value: float, deviation: float | None) -> tuple[str, float]:
    return row.metric.with_spread(value, deviation), value


def _rounds(row: Row) -> tuple[str, float | None]:
    if row.rounds is None:
        return f">{row.budget}", None
    spread = f" ± {one_decimal(row.rounds_std)}" if row.rounds_std is not None else ""
    return mean_rounds(row.rounds) + spread, row.rounds


def mean_rounds(rounds: float) -> str:
    """A number of rounds, with a decimal if it is a mean that has one.

    >>> mean_rounds(8.0), mean_rounds(26 / 3)
    ('8', '8.7')
    """
    return f"{rounds:.0f}" if rounds == int(rounds) else one_decimal(rounds)


def _hours(
    hours: float | None, deviation: float | None, unit: TimeUnit, more_than: float | None = None
) -> tuple[str, float | None]:
    """A time in this unit; one that is not reached is more than the time in all."""

    def shown(value: float) -> str:
        return three_digits(3600 * value / unit.seconds)

    if hours is None:
        return (UNKNOWN if more_than is None else f">{shown(more_than)}"), None
    if deviation is None:
        return shown(hours), hours
    decimals = len(shown(hours).partition(".")[2])
    return f"{shown(hours)} ± {3600 * deviation / unit.seconds:.{decimals}f}", hours
