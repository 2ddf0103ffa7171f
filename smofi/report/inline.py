"""The display of a run that Python called: as the command shows it, or in a notebook as one line that is rewritten."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console

from smofi.engine.events import Event, RoundDone, RunEnded, TickDone
from smofi.report.curves import NARROWEST
from smofi.report.history import Scale
from smofi.report.live import Live
from smofi.report.numbers import hours_minutes_seconds
from smofi.report.progress import RunProgress, bar

REWRITTEN_EVERY = 0.25  # seconds
BAR = 20  # characters


def display(method: str, rounds: int) -> Live:
    """The display of one run, on standard error, which leaves standard output to what the program itself prints. A
    notebook colours that as errors, so there it is standard output."""
    console = Console(stderr=True)
    if console.is_jupyter:
        console = Console(file=sys.stdout, force_jupyter=False)
        live = Live(console, [method], rounds, "plain")
        live.view = NotebookLine(console, live.runs)
        return live
    return Live(console, [method], rounds, "auto" if console.width >= NARROWEST else "plain")


class NotebookLine:
    """One line that is rewritten as the run goes; what is said stands above it."""

    def __init__(
        self, console: Console, runs: Sequence[RunProgress], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.file, self.runs, self.now = console.file, runs, now
        self.written_at, self.line = now(), ""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Leave the line as it is: what comes next begins on a new one."""
        if self.line:
            self._write("\n")
            self.line = ""

    def say(self, text: str, warning: bool = False) -> None:
        line = self.line
        self._write(f"\r{f'warning: {text}' if warning else text:<{len(line)}}\n{line}")

    def show(self, event: Event, run: RunProgress) -> None:
        due = self.now() - self.written_at >= REWRITTEN_EVERY
        if isinstance(event, RunEnded) or (due and isinstance(event, RoundDone | TickDone)):
            before, self.line, self.written_at = self.line, _line(run), self.now()
            if self.line != before:
                self._write(f"\r{self.line:<{len(before)}}")

    def _write(self, text: str) -> None:
        self.file.write(text)
        self.file.flush()


def _line(run: RunProgress) -> str:
    history, metric = run.history, Scale.of([run.history])
    known = [f"{history.name}  {''.join(bar(run.done, BAR, unicode=True))}  round {history.rounds}/{run.rounds}"]
    if history.last is not None:
        known.append(f"{metric.short} {metric.text(history.last)}, best {metric.text(history.best)}")
    if run.state != "running":
        known.append(run.state)
    elif run.seconds_left is not None:
        known.append(f"{hours_minutes_seconds(run.seconds_left)} left")
    return ", ".join(known)
