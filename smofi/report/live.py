"""A run as it goes: a bar per method on a terminal, a line now and then anywhere else."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from smofi.engine.events import Event, RoundDone, RunEnded, RunStarted, Warned


class Live:
    """Shows the events of several runs, one after the other."""

    def __init__(self, console: Console, methods: list[str], rounds: int) -> None:
        self.console = console
        width = max(map(len, methods))
        self.progress = Progress(
            TextColumn(f"{{task.description:<{width}}}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("rounds  {task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            expand=True,
        )
        self.tasks: list[TaskID] = [
            self.progress.add_task(escape(method), total=rounds, accuracy="       ", start=False) for method in methods
        ]
        self.names, self.rounds, self.current = methods, rounds, -1

    def __enter__(self) -> Live:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        """The callback of a run."""
        if isinstance(event, RunStarted):
            self.current += 1
            self.progress.start_task(self.tasks[self.current])
            if self.current == 0:
                self._announce(event)
        elif isinstance(event, RoundDone):
            record = event.record
            accuracy = f"{record.accuracy:7.1%}" if record.accuracy is not None else ""
            self.progress.update(self.tasks[self.current], completed=record.round, accuracy=accuracy)
            if not self.console.is_terminal and record.round % max(1, self.rounds // 5) == 0:
                self.console.print(
                    f"{self.names[self.current]}: round {record.round}/{self.rounds}, accuracy {accuracy.strip()}",
                    markup=False,
                    highlight=False,
                )
        elif isinstance(event, Warned):
            self.console.print(f"[yellow]{escape(self.names[self.current])}: {escape(event.message)}[/yellow]")
        elif isinstance(event, RunEnded):
            self.progress.stop_task(self.tasks[self.current])

    def _announce(self, event: RunStarted) -> None:
        small = event.clients - event.eligible
        self.console.print(
            f"{event.clients} clients, {event.per_round} a round, {event.parameters:,} parameters"
            + (f"; {small} clients hold less than a batch and never take part" if small else ""),
            highlight=False,
        )
