"""What `smofi show` prints about a folder that has runs in it: a row for each run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.errors import InputError
from smofi.report.heading import short
from smofi.report.history import ACCURACY, Scale
from smofi.report.show.snapshot import Snapshot, snapshots_in
from smofi.report.show.views import state_text
from smofi.runs import DamagedFile, RunFolder, runs_below

WIDEST = 24
"""Up to this many characters, the name of a data set is not broken."""


@dataclass(frozen=True)
class Entry:
    """A folder among others: its runs, or why they cannot be read."""

    path: Path
    runs: list[Snapshot]
    error: InputError | None = None

    @property
    def started(self) -> str:
        return str(self.runs[0].about.get("started", "")) if self.runs else ""


def entries_below(path: Path) -> list[Entry]:
    """The runs and comparisons right below a folder, the latest last; none if there are none."""
    return sorted((_entry(one) for one in runs_below(path)), key=lambda entry: (entry.started, entry.path))


def missing_config(path: Path) -> list[InputError]:
    """That a folder with runs in it was a comparison, and lacks its own settings."""
    with suppress(InputError):  # another program's files
        if (folder := RunFolder(path)).manifest().runs:
            return [DamagedFile(f"{folder.config_file} is missing", "The runs themselves are as they were")]
    return []


def _entry(path: Path) -> Entry:
    try:
        return Entry(path, snapshots_in(path))
    except InputError as error:
        return Entry(path, [], error)


class RunsView:
    """A row for each run, the methods of a comparison below each other."""

    def __init__(self, path: Path, entries: list[Entry]) -> None:
        self.path, self.entries = path, entries

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        listing = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for heading in ("folder", "method", "state"):
            listing.add_column(heading, overflow="fold")
        for heading in ("rounds", "best"):
            listing.add_column(heading, justify="right", no_wrap=True)
        words = [word for one in self.entries for run in one.runs[:1] for word in _data(run).split()]
        listing.add_column("data", overflow="fold", min_width=min(WIDEST, max(map(len, words), default=0)))
        for entry in self.entries:
            seeds = {run.config.seed for run in entry.runs}
            for number, run in enumerate(entry.runs):
                first = number == 0
                listing.add_row(
                    Text(entry.path.name if first else ""),
                    Text(run.method if len(seeds) == 1 else f"{run.method}, seed {run.config.seed}"),
                    state_text(run.state),
                    f"{run.history.rounds}/{run.progress.rounds}",
                    _best(run),
                    Text(_data(run) if first else ""),
                )
            if entry.error:
                listing.add_row(Text(entry.path.name), "", state_text("damaged"))
        yield listing
        yield Text(f"To see one: smofi show {self.path / self.entries[-1].path.name}", style="dim")


def _data(run: Snapshot) -> str:
    divided = short(run.config.partition) if run.clients is None else "served"
    return f"{short(run.config.data)}, {divided}"


def _best(run: Snapshot) -> str:
    """The best value so far, and of what, unless it is the accuracy."""
    metric = Scale.of([run.history])
    return metric.text(run.history.best) + ("" if metric == ACCURACY else f" {metric.short}")
