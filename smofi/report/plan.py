"""A dry run as a table: a column per method, everything it will do and take below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table

from smofi.planning import PlanSummary
from smofi.plural import between
from smofi.report.names import Name
from smofi.report.numbers import duration, median_count, megabytes, percent

HEADINGS, METHOD = 26, 26
"""Characters that the headings take, and a method at least."""


def plan_table(summaries: Sequence[PlanSummary]) -> RenderableType:
    """The plans of one or several methods, for the terminal: side by side, and below each other where it is narrow.

    >>> from rich.console import Console
    >>> from smofi.config import Config
    >>> from smofi.planning import plan_run
    >>> console = Console(width=80, color_system=None)
    >>> with console.capture() as captured: console.print(plan_table([plan_run(Config(), "fedavg", deadline=0.1)]))
    >>> "fedavg" in captured.get().splitlines()[1]
    True
    """
    return _Plans(summaries)


class _Plans:
    def __init__(self, summaries: Sequence[PlanSummary]) -> None:
        self.summaries = summaries

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        beside = max(1, (options.max_width - HEADINGS) // METHOD)
        for start in range(0, len(self.summaries), beside):
            yield _table(self.summaries[start : start + beside])
        if len(self.summaries) > 1:
            yield f"All methods together take about {duration(sum(plan.seconds for plan in self.summaries))}."


def _table(summaries: Sequence[PlanSummary]) -> Table:
    drawn = Table("")
    for summary in summaries:
        drawn.add_column(Name(summary.method))
    for heading, cell in ROWS.items():
        drawn.add_row(heading, *(escape(cell(summary)) for summary in summaries))
    drawn.add_section()
    if summaries[0].workers > 1:
        drawn.add_row("memory of each worker")
    for what in _kinds(summaries):
        drawn.add_row(f"  {what}", *(escape(_item(summary, what)) for summary in summaries))
    drawn.add_row(
        f"memory{_of_workers(summaries)}, not counting Python and torch", *(megabytes(s.bytes) for s in summaries)
    )
    drawn.add_section()
    drawn.add_row("a round takes about", *(duration(summary.seconds_per_round) for summary in summaries))
    seeds = f" of all {summaries[0].seeds} seeds" if summaries[0].seeds > 1 else ""
    drawn.add_row(f"all rounds{seeds} take about", *(duration(summary.seconds) for summary in summaries))
    return drawn


def _of_workers(summaries: Sequence[PlanSummary]) -> str:
    workers = summaries[0].workers
    return f" of all {workers} workers" if workers > 1 else ""


def _kinds(summaries: Sequence[PlanSummary]) -> list[str]:
    """What takes memory in any of the plans, by first mention; all of a family ("momentum: ...") together."""
    kinds = list(dict.fromkeys(item.what for summary in summaries for item in summary.memory))
    families = [what.partition(":")[0] for what in kinds]
    return sorted(kinds, key=lambda what: families.index(what.partition(":")[0]))


def _sides(summary: PlanSummary) -> str:
    return "\n".join(
        f"{side.client:,} + {side.server:,} ({percent(side.client / summary.parameters)} on the client)"
        + (f", cut {side.cut}" if len(summary.sides) > 1 else "")
        for side in summary.sides
    )


ROWS: dict[str, Callable[[PlanSummary], str]] = {
    "clients": lambda plan: f"{plan.clients:,}",
    "clients with a full batch": lambda plan: f"{plan.eligible:,}",
    "clients per round": lambda plan: f"{plan.per_round:,}",
    "samples per client": lambda plan: (
        f"{between(plan.samples[0], plan.samples[2])}, median {median_count(plan.samples[1])}"
    ),
    "held out": lambda plan: (
        f"{plan.test:,} for testing" + (f", {plan.validation:,} for validation" if plan.validation else "")
    ),
    "rounds": lambda plan: f"{plan.rounds:,}" + (f" with each of {plan.seeds} seeds" if plan.seeds > 1 else ""),
    "steps": lambda plan: f"{plan.steps:,} ({plan.steps_per_round:,.1f} per round)",
    "parameters, client + server": _sides,
    "workers": lambda plan: f"{plan.workers:,}",
}


def _item(summary: PlanSummary, what: str) -> str:
    found = [item for item in summary.memory if item.what == what]
    return f"{megabytes(found[0].bytes)}: {found[0].arithmetic.replace('_', ' ')}" if found else "-"
