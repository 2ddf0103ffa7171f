"""Many cells by one command: which are done, running the rest with one display, and what is printed afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from smofi.cli.arguments import Display
from smofi.cli.program import COMMAND_LINE, console
from smofi.cli.streams import complain, remark
from smofi.cli.sweep_display import SweepDisplay
from smofi.errors import InputError, check_count
from smofi.plural import plural, some_of
from smofi.report.numbers import duration
from smofi.sweep.cells import Cell
from smofi.sweep.folder import SweepFolder, check_folder
from smofi.sweep.pace import Pace, paces_in, timed_paces
from smofi.sweep.running import FINISHED, CellEvent, Outcomes, check_alone, run_cells, usual_jobs
from smofi.sweep.store import BusyFolder, Store


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
