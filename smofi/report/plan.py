"""A dry run as a table: a column per method, everything it will do and take below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.markup import escape
from rich.table import Table

from smofi.planning import PlanSummary


def plan_table(summaries: Sequence[PlanSummary]) -> Table:
    """The plans of one or several methods, for the terminal.

    >>> from smofi.config import Config
    >>> from smofi.planning import plan_run
    >>> plan_table([plan_run(Config(), "fedavg", deadline=0.1)]).columns[1].header
    'fedavg'
    """
    drawn = Table("", *(escape(summary.method) for summary in summaries))
    for heading, cell in ROWS.items():
        drawn.add_row(heading, *(escape(cell(summary)) for summary in summaries))
    drawn.add_section()
    for what in _kinds(summaries):
        drawn.add_row(f"  {what}", *(escape(_item(summary, what)) for summary in summaries))
    drawn.add_row("memory, without Python and torch", *(megabytes(summary.bytes) for summary in summaries))
    drawn.add_section()
    drawn.add_row("a round takes about", *(duration(summary.seconds_per_round) for summary in summaries))
    drawn.add_row("all rounds take about", *(duration(summary.seconds) for summary in summaries))
    return drawn


def _kinds(summaries: Sequence[PlanSummary]) -> list[str]:
    """What takes memory in any of the plans, by first mention; all of a family ("momentum: ...") together."""
    kinds = list(dict.fromkeys(item.what for summary in summaries for item in summary.memory))
    families = [what.partition(":")[0] for what in kinds]
    return sorted(kinds, key=lambda what: families.index(what.partition(":")[0]))


def _sides(summary: PlanSummary) -> str:
    return "\n".join(
        f"{side.client:,} + {side.server:,} ({100 * side.client / summary.parameters:.1f}% on the client)"
        + (f", cut {side.cut}" if len(summary.sides) > 1 else "")
        for side in summary.sides
    )


ROWS: dict[str, Callable[[PlanSummary], str]] = {
    "clients": lambda plan: f"{plan.clients:,}",
    "with a full batch": lambda plan: f"{plan.eligible:,}",
    "take part in a round": lambda plan: f"{plan.per_round:,}",
    "samples per client": lambda plan: (
        f"{plan.samples[0]:,} to {plan.samples[2]:,}, half have {plan.samples[1]:,.10g} or more"
    ),
    "held out": lambda plan: f"{plan.test:,} test" + (f", {plan.validation:,} validation" if plan.validation else ""),
    "rounds": lambda plan: f"{plan.rounds:,}",
    "steps": lambda plan: f"{plan.steps:,} ({plan.steps_per_round:,.1f} a round)",
    "parameters, client + server": _sides,
}


def _item(summary: PlanSummary, what: str) -> str:
    found = [item for item in summary.memory if item.what == what]
    return f"{megabytes(found[0].bytes)}: {found[0].arithmetic}" if found else "-"


def megabytes(size: int) -> str:
    """A size in the unit that suits it.

    >>> megabytes(512), megabytes(2_540_000), megabytes(3_000_000_000)
    ('0.5 kB', '2.5 MB', '3.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(75.2), duration(3725), duration(200_000)
    ('12 ms', '75 s', '1 h 02 min', '2 d 08 h')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24:02d} h"
