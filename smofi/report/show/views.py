"""What `smofi show` prints: one run with its curve and diagnostics, or several methods side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.report.canvas import can_braille
from smofi.report.clients import clients_table
from smofi.report.curves import draw_curves
from smofi.report.history import Scale
from smofi.report.measures import compare
from smofi.report.numbers import UNKNOWN, four_digits, hours_minutes_seconds
from smofi.report.progress import seconds_left_in_all
from smofi.report.show.facts import Facts, files, progress, settings
from smofi.report.show.snapshot import Snapshot
from smofi.report.style import DIM
from smofi.report.table import results_table
from smofi.runs import RunFolder, resuming_command

COLOURS = {"finished": "green", "still going": "cyan", "interrupted": "yellow", "diverged": "red", "damaged": "red"}
NARROWEST, WIDEST = 20, 100  # of the curves, in characters


class RunView:
    """A run: what it is, how far it has come, its curve and its diagnostics."""

    def __init__(self, run: Snapshot) -> None:
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        run = self.run
        yield _heading(run)
        unicode = can_braille(options.encoding)
        yield _facts_table([("folder", str(run.path)), *settings(run), *progress(run, unicode), *files(run)])
        if run.history.measured:
            yield draw_curves([run.history], width=_width(options), encoding=options.encoding)
        if (clients := clients_table([run.history])) is not None:
            yield clients
        if run.diagnostics:
            yield self._diagnostics()

    def _diagnostics(self) -> Table:
        listing = Table("diagnostics", box=None, padding=(0, 2, 0, 0))
        for heading in ("first", "last", "mean"):
            listing.add_column(heading, justify="right")
        for name, values in self.run.diagnostics.items():
            listing.add_row(name.replace("_", " "), *map(four_digits, (values[0], values[-1], fmean(values))))
        return listing


class ComparisonView:
    """Several methods, seeds or both side by side."""

    def __init__(self, path: Path, runs: list[Snapshot]) -> None:
        self.path, self.runs = path, runs
        self.seeds = list(dict.fromkeys(run.config.seed for run in runs))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _facts_table([("folder", str(self.path)), *settings(self.runs[0], self.seeds)])
        yield self._states()
        if not any(run.writer for run in self.runs) and any(run.state == "interrupted" for run in self.runs):
            yield _facts_table([("to continue", resuming_command(RunFolder(self.path)))])
        histories = [run.history for run in self.runs if run.history.measured]
        if rows := compare(histories):
            yield results_table(rows)
            yield draw_curves(histories, target=rows[0].target, width=_width(options), encoding=options.encoding)
        if (clients := clients_table([one for one in histories if one.seed == self.seeds[0]])) is not None:
            yield clients
        if any(run.diagnostics for run in self.runs):
            yield self._diagnostics()

    def _states(self) -> RenderableType:
        """A row for each run. One process trains them in turn, so those after the one it trains are waiting."""
        states = Table.grid(padding=(0, 2, 0, 0))
        training = False
        for run in self.runs:
            state, note = run.state, ""
            if state == "still going" and training and not run.records:
                state = "waiting"
            training = training or state == "still going"
            if state in ("finished", "diverged"):
                note = run.stopped
            if state == "still going" and run.progress.seconds_left is not None:
                note = f"about {hours_minutes_seconds(run.progress.seconds_left)} left"
            last = Scale.of([run.history]).text(run.history.last)
            cells = (f"{run.history.rounds}/{run.progress.rounds}", f"last {last}", note)
            states.add_row(*self._called(run), state_text(state), *map(Text, cells))
        if len(self.seeds) > 1:
            return Group(states, Text(self._done(), style=DIM))
        return states

    def _called(self, run: Snapshot) -> list[Text]:
        """A run's seed, where there are several, and its method."""
        return [*([Text(f"seed {run.config.seed}")] if len(self.seeds) > 1 else []), Text(run.method)]

    def _done(self) -> str:
        """How many runs are done, and while one is trained the time left over all."""
        done = sum(run.state in ("finished", "diverged") for run in self.runs)
        text = f"{done} of {len(self.runs)} runs done"
        if not any(run.writer for run in self.runs):
            return text
        ahead = [replace(run.progress, state="done" if run.result else "running") for run in self.runs]
        left = seconds_left_in_all(ahead)
        return f"{text}, about {hours_minutes_seconds(left)} left in all" if left is not None else text

    def _diagnostics(self) -> Table:
        names = list(dict.fromkeys(name for run in self.runs for name in run.diagnostics))
        listing = Table("mean over rounds", box=None, padding=(0, 2, 0, 0))
        for name in names:
            listing.add_column(name.replace("_", " "), justify="right")
        for run in self.runs:
            cells = [
                four_digits(fmean(run.diagnostics[name])) if name in run.diagnostics else UNKNOWN for name in names
            ]
            listing.add_row(Text(", ".join(map(str, self._called(run)))), *cells)
        return listing


def state_text(state: str) -> Text:
    """The state of a run in its colour."""
    return Text(state, style=COLOURS.get(state, ""))


def _heading(run: Snapshot) -> Text:
    text = Text(f"{run.method}  ", style="bold") + state_text(run.state)
    text += Text(f", round {run.history.rounds} of {run.progress.rounds}", style="not bold")
    return text + Text(f", process {run.writer}" if run.writer else "")


def _facts_table(facts: Facts) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=DIM, no_wrap=True, min_width=11)
    grid.add_column(overflow="fold")
    for name, text in facts:
        grid.add_row(name, Text(text))
    return grid


def _width(options: ConsoleOptions) -> int:
    return max(NARROWEST, min(options.max_width, WIDEST))
