"""A sweep as it goes: bars on a terminal, a line for each cell elsewhere, JSON lines for programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from smofi.cli.arguments import Display
from smofi.files import to_json
from smofi.plural import plural
from smofi.report.numbers import hours_minutes_seconds, percent
from smofi.sweep.cells import Cell
from smofi.sweep.pace import Pace
from smofi.sweep.running import Advanced, CellEvent, Ended, Outcome, Postponed, Started, Stopping

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
