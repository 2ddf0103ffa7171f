"""Many cells by one command: which are done, running the rest with one display, and what is printed afterwards."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from smofi.cli.arguments import Display
from smofi.cli.program import COMMAND_LINE, console
from smofi.cli.streams import complain, remark
from smofi.errors import InputError, check_count
from smofi.files import to_json
from smofi.plural import plural, some_of
from smofi.report.numbers import duration, hours_minutes_seconds, percent
from smofi.sweep.running import (
    FINISHED,
    Advanced,
    CellEvent,
    Ended,
    Outcome,
    Outcomes,
    Pace,
    Postponed,
    Started,
    Stopping,
    SweepFolder,
    check_alone,
    check_folder,
    paces_in,
    run_cells,
    timed_paces,
    usual_jobs,
)
from smofi.sweep.store import BusyFolder, Cell, Store

LINE_EVERY = 30.0
"""Seconds between lines about cells that are still running."""


class SweepDisplay:
    """Follows the cells of a sweep and shows them as `mode` says. All metrics that a run is judged by are shares."""

    def __init__(
        self, console: Console, pace: Pace, mode: Display, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        if mode == "auto":
            mode = "live" if console.is_terminal and not console.is_dumb_terminal else "plain"
        self.console, self.pace, self.mode, self.now = console, pace, mode, now
        self.running: dict[str, tuple[Cell, int]] = {}
        self.best: dict[str, float] = {}
        self.before, self.ended, self.failed = 0, 0, 0
        self.printed_at = now()
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=mode != "live",
        )
        self.tasks: dict[str, TaskID] = {}
        self.all = self.bars.add_task("all cells", total=len(pace.cells), note="")

    def __enter__(self) -> SweepDisplay:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()
        self._say_before()

    def say(self, text: str, warning: bool = False) -> None:
        """Print a sentence for people; with `quiet` only a warning, for programs none."""
        if self.mode in ("live", "plain") or (warning and self.mode == "quiet"):
            words = Text(f"warning: {text}" if warning else text, style="yellow" if warning else "")
            self.console.print(words, soft_wrap=True)

    def __call__(self, event: CellEvent) -> None:
        """Take note of an event, and show it."""
        self.pace(event)
        if self.mode == "jsonl":
            self._write(event)
        if isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Advanced):
            self._advance(event)
        elif isinstance(event, Ended):
            self._end(event.outcome)
        elif isinstance(event, Postponed):
            self.say(f"{event.cell.title}: waiting for process {event.process}, which still writes {event.folder}")
        else:
            self.say("finishing the rounds that are running, then stopping; interrupt again to quit at once")
        self.bars.update(self.all, completed=self.ended, note=self._left())

    def _start(self, event: Started) -> None:
        self._say_before()
        cell = event.cell
        self.running[cell.key] = cell, 0
        self.tasks[cell.key] = self.bars.add_task(cell.title, total=cell.config.rounds, note="starting")

    def _advance(self, event: Advanced) -> None:
        cell = event.cell
        self.running[cell.key] = cell, event.done
        if event.value is not None:
            self.best[cell.key] = max(event.value, self.best.get(cell.key, event.value))
        self.bars.update(self.tasks[cell.key], completed=event.done, note=percent(event.value))
        if self.mode == "plain" and self.now() - self.printed_at >= LINE_EVERY:
            rounds = (f"{one.title} {done}/{one.config.rounds}" for one, done in self.running.values())
            self._line(f"{self._count()}; running: {'; '.join(rounds)}; {self._left()}")

    def _end(self, outcome: Outcome) -> None:
        key = outcome.cell.key
        self.running.pop(key, None)
        if (task := self.tasks.pop(key, None)) is not None:
            self.bars.remove_task(task)
        self.ended += outcome.state != "interrupted"
        self.failed += outcome.state == "failed"
        if not outcome.ran and outcome.done:
            self.before += 1
            return
        self._say_before()
        took = f" in {hours_minutes_seconds(outcome.seconds)}" if outcome.ran else ""
        where = " on validation data" * bool(outcome.cell.config.validation)
        best = f", best {percent(self.best[key])}{where}" if key in self.best else ""
        self._line(f"{outcome.cell.title}: {outcome.state}{took}{best}; {self._count()}, {self._left()}")

    def _say_before(self) -> None:
        if self.before:
            self.say(f"{plural(self.before, 'cell')} done before")
            self.before = 0

    def _line(self, text: str) -> None:
        self.say(text)
        self.printed_at = self.now()

    def _count(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {len(self.pace.cells)} done{failed}"

    def _left(self) -> str:
        left = self.pace.seconds_left
        return "time left unknown" if left is None else f"about {hours_minutes_seconds(left)} left"

    def _write(self, event: CellEvent) -> None:
        """One JSON object a line."""
        fields = asdict(event.outcome) if isinstance(event, Ended) else asdict(event)
        if not isinstance(event, Stopping):
            cell = event.outcome.cell if isinstance(event, Ended) else event.cell
            fields = {"cell": cell.title, "key": cell.key} | {k: v for k, v in fields.items() if k != "cell"}
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        plain = {name: str(value) if name == "folder" and value else value for name, value in fields.items()}
        self.console.file.write(to_json({"event": f"Cell{type(event).__name__}", "time": moment, **plain}) + "\n")
        self.console.file.flush()


# --------------------------------------------------------------------------------------------------------------------
# Many cells by one command: which are done, running the rest with one display, and what is printed afterwards.


class Sweep:
    """Cells in a folder; refused if the folder cannot be that of a sweep."""

    def __init__(self, cells: Sequence[Cell], folder: Path, jobs: int | None, text: str) -> None:
        check_alone()
        check_folder(folder)
        self.cells, self.folder, self.text = cells, folder, text
        self.store = Store(folder)
        self.jobs = usual_jobs(self.to_do) if jobs is None else check_count("jobs", jobs, high=1024)

    @property
    def to_do(self) -> list[Cell]:
        """The cells that are not finished."""
        return [cell for cell in self.cells if self._state(cell) != FINISHED]

    def _state(self, cell: Cell) -> str:
        """Finished, begun, to do, or what is in its way."""
        try:
            if self.store.finished(cell):
                return FINISHED
            return "begun" if self.store.folder_for(cell).has_run else "to do"
        except BusyFolder:
            return "begun"
        except InputError as error:
            return f"cannot start: {error}"

    def list(self) -> int:
        """Print the cells, which of them are done, and what the others take. Exit code 2 if one cannot start."""
        states = {cell.key: self._state(cell) for cell in self.cells}
        listing = Table("cell", box=None, padding=(0, 2, 0, 0), header_style="bold")
        listing.add_column("rounds", justify="right")
        listing.add_column("state")
        for cell in self.cells:
            listing.add_row(Text(cell.title), str(cell.config.rounds), Text(states[cell.key].partition(":")[0]))
        console.print(listing)
        blocked = [cell for cell in self.cells if states[cell.key].startswith("cannot")]
        rest = [cell for cell in self.to_do if cell not in blocked]
        done = len(self.cells) - len(rest) - len(blocked)
        print_line(f"{plural(len(self.cells), 'cell')} in {self.folder}, {done} done.")
        if rest:
            seconds = Pace(rest, self.jobs, self._paces(rest)).seconds_left
            assert seconds is not None
            print_line(f"The other {len(rest)} take about {duration(seconds)}, {self.jobs} at a time.")
        for cell in blocked:
            complain(f"{cell.title}: {states[cell.key].partition(': ')[2]}")
        return 2 if blocked else 0

    def _paces(self, cells: Sequence[Cell]) -> dict[str, float]:
        """The seconds of a round of each cell, from runs that are there, or else from a few steps on copies."""
        known = paces_in(self.store, cells)
        unknown = [cell for cell in cells if cell.key not in known]
        return known | timed_paces(unknown, lambda cell: cell.config.workers or 1)

    def run(self, display: Display) -> Outcomes:
        """Run what is not done, and say what failed."""
        expected = paces_in(self.store, self.to_do)
        folder = SweepFolder(self.folder, self.cells, self.text)
        try:
            with SweepDisplay(console, Pace(self.cells, self.jobs, expected), display) as shown:
                shown.say(f"{plural(len(self.cells), 'cell')} in {self.folder}, {self.jobs} at a time")
                for path, error in self.store.unreadable.items():
                    shown.say(f"{path} is left alone: {error}", warning=True)
                if folder.left:
                    names = [entry.title for entry in folder.left.values()]
                    shown.say(f"not in the file any more, but kept: {some_of(names, separator='; ')}")

                def watch(event: CellEvent) -> None:
                    folder(event)
                    shown(event)

                outcomes = run_cells(self.cells, self.store, self.jobs, watch)
        finally:
            folder.close()
        for outcome in outcomes.all:
            if outcome.state in ("failed", "diverged"):
                complain(f"{outcome.cell.title} {outcome.state}: {outcome.words}")
        if outcomes.signal is not None:
            remark(f"Interrupted; continue with: {shlex.join(['smofi', *COMMAND_LINE])}")
        return outcomes


def print_line(text: str) -> None:
    """A line as it is: no colours, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def exit_code(outcomes: Outcomes) -> int:
    """128 + n after signal n; 1 if a cell failed or diverged."""
    if outcomes.signal is not None:
        return 128 + outcomes.signal
    return int(any(outcome.state in ("failed", "diverged") for outcome in outcomes.all))
