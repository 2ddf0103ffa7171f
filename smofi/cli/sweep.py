"""Commands that run many cells, with one display: sweep, tune."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from smofi.cli.entry import complain, loading, remark
from smofi.cli.program import (
    COMMAND_LINE,
    HOW_TO_WRITE,
    NONE_GIVEN,
    ONE_OR_MORE,
    RUNS,
    Display,
    Flags,
    Scale,
    Source,
    command,
    console,
    doc,
    print_line,
    resolve,
    settings_given,
)
from smofi.config import Config, config_yaml
from smofi.engine.metrics import headings
from smofi.errors import InputError, check_count, refuse_unwanted
from smofi.files import to_json
from smofi.plural import plural, some_of
from smofi.report.numbers import duration, hours_minutes_seconds, percent, percent_with_spread
from smofi.sweep.file import each_alone, labelled, read_sweep
from smofi.sweep.running import (
    FINISHED,
    Advanced,
    CellEvent,
    Ended,
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
from smofi.sweep.store import BusyFolder, Cell, Store, slug
from smofi.sweep.tuning import Trial, at_the_edge, best_of, held_out, tried, variants, within_spread

if TYPE_CHECKING:
    from rich.progress import TaskID

Jobs: TypeAlias = Annotated[
    int | None,
    doc("how many cells run at a time, each with one worker; by default as many as there are cores"),
]
DryRun: TypeAlias = Annotated[bool, doc("list the cells, which of them are done, and about how long the others take")]
SweepOutput: TypeAlias = Annotated[Path | None, doc("the folder of the sweep; the same one again goes on where it was")]


@command("smofi sweep mine.yaml --dry-run", "smofi sweep mine.yaml --output runs/mine --jobs 2")
def sweep(
    file: Annotated[Path, doc("a YAML file of settings with a grid or a list to vary")],
    /,
    *,
    output: SweepOutput = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    display: Display = "auto",
) -> int:
    """Train every cell of a grid or a list of settings: methods, seeds, partitions, cuts, or any other setting.

    Cells that are done are skipped, those that were interrupted go on, and one that fails stops no other. The folder is
    runs/NAME for NAME.yaml, unless --output says otherwise. Exit code 1 if a cell failed or diverged.
    """
    read = read_sweep(file)
    folder = RUNS / file.stem if output is None else output
    cells = Sweep(read.cells, folder, jobs, read.text)
    if dry_run:
        return cells.list()
    outcomes = cells.run(display)
    if display not in ("quiet", "jsonl"):
        _print_tables(outcomes.folders)
        quoted = shlex.quote(str(folder))
        print_line(f"Runs: {folder}")
        if outcomes.folders:
            print_line(f"Next: smofi compare {quoted}")
            print_line(f"      smofi report {quoted} -o {quoted}/report.html")
    return exit_code(outcomes)


def _print_tables(folders: Sequence[Path]) -> None:
    from smofi.report.results import compare
    from smofi.report.snapshots import read_runs, setups_of
    from smofi.report.table import results_table

    for setup in setups_of(read_runs(folders)):
        try:
            rows = compare(setup.histories)
        except InputError as error:  # of a sweep that is not finished
            print_line(f"{setup.name or 'results'}: {error}")
            continue
        if rows:
            console.print(results_table(rows, title=escape(setup.name) or None))


@command(
    "smofi tune fedprox fashion-mnist --scale small",
    'smofi tune "smofi(alpha=-0.1)" my.yaml --grid global_momentum=0.1,0.3,0.5',
    options=HOW_TO_WRITE,
)
def tune(
    method: Annotated[str, doc("the method whose parameters are tuned, such as fedprox or fedprox+smofi")],
    source: Source = None,
    /,
    *,
    flags: Flags = NONE_GIVEN,
    scale: Scale = None,
    grid: Annotated[
        list[str] | None,
        doc("values to try, such as mu=0.001,0.01; by default those in docs/sweeps.md"),
        ONE_OR_MORE,
    ] = None,
    output: SweepOutput = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    display: Display = "auto",
) -> int:
    """Choose a method's parameters by the accuracy on validation data, a tenth of the training data held out.

    Every combination of the grid is trained with every seed. Parameters that are written in METHOD stay as they are.
    The test data has no say in what is chosen. The same command again goes on where it was.
    """
    given = settings_given(flags)
    if "method" in given:
        refuse_unwanted("method", list(given["method"]), "the method to tune comes first: smofi tune METHOD")
    tried_out = variants(method, grid or ())
    config = resolve(source, {**given, "method": [one.method for one in tried_out]}, scale)
    config = config.model_copy(update={"validation": held_out(given, config)})
    cells = labelled(each_alone([config]), "the grid")
    folder = RUNS / f"tune-{slug(config.data)}-{slug(method)}" if output is None else output
    combinations = Sweep(cells, folder, jobs, config_yaml(config))
    if dry_run:
        return combinations.list()
    outcomes = combinations.run(display)
    trials = tried(tried_out, outcomes.all)
    best = best_of(trials)
    if display != "jsonl":
        _print_choice(config, trials, best, folder)
    return exit_code(outcomes) or int(best is None)


def _print_choice(config: Config, trials: Sequence[Trial], best: Trial | None, folder: Path) -> None:
    """Print the grid, a row for each combination, and the best one, which is bold."""
    judged = next(name for metric, name in headings(config.metrics).items() if metric != "per_client")
    table = Table(title="on validation data, mean ± standard deviation over seeds", title_justify="left")
    for heading in (*map(str, trials[0].variant.values), f"best {judged}", "mean over rounds", "seeds"):
        table.add_column(heading, justify="right")
    for trial in trials:
        cells = [f"{value:g}" for value in trial.variant.values.values()]
        if trial.best:
            mean = sum(trial.means) / len(trial.means)
            cells += [percent_with_spread(trial.mean, trial.spread), percent(mean)]
        else:
            cells += ["-", "-"]
        cells.append(f"{len(trial.best)}" + (f", {trial.missing}" if trial.missing else ""))
        table.add_row(*(Text(cell, style="bold" if trial is best else "") for cell in cells))
    console.print(table)
    print_line(f"Runs: {folder}")
    if best is None:
        print_line("No combination has all its seeds: none is chosen.")
        return
    print_line(f"Best: {best.variant.method}. Use it with: --method {shlex.quote(best.variant.method)}")
    if close := within_spread(best, trials):
        names = ", ".join(trial.variant.method for trial in close)
        print_line(f"Within its standard deviation over seeds, so about as good: {names}")
    for parameter, which in at_the_edge(best, trials).items():
        value = best.variant.values[parameter]
        print_line(f"{parameter}={value:g} is the {which} value tried; a better one may lie beyond it, see --grid")


# --------------------------------------------------------------------------------------------------------------------
# The cells of either: which are done, and running the rest.


class Sweep:
    """Cells in a folder; refused if the folder cannot be that of a sweep."""

    def __init__(self, cells: Sequence[Cell], folder: Path, jobs: int | None, text: str) -> None:
        check_alone()
        check_folder(folder)
        self.cells, self.folder, self.text = cells, folder, text
        self.store = Store(folder)
        self.states = {cell.key: self._state(cell) for cell in cells}
        self.to_do = [cell for cell in cells if self.states[cell.key] != FINISHED]
        self.jobs = usual_jobs(self.to_do) if jobs is None else check_count("jobs", jobs, high=1024)

    def _state(self, cell: Cell) -> str:
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
        listing = Table("cell", box=None, padding=(0, 2, 0, 0), header_style="bold")
        listing.add_column("rounds", justify="right")
        listing.add_column("state")
        blocked: dict[str, str] = {}
        for cell in self.cells:
            state, _, why = self.states[cell.key].partition(": ")
            listing.add_row(Text(cell.title), str(cell.config.rounds), Text(state))
            if why:
                blocked[cell.key] = f"{cell.title}: {why}"
        console.print(listing)
        print_line(f"{plural(len(self.cells), 'cell')} in {self.folder}, {len(self.cells) - len(self.to_do)} done.")
        if rest := [cell for cell in self.to_do if cell.key not in blocked]:
            with loading():
                known = paces_in(self.store, rest)
                unknown = [cell for cell in rest if cell.key not in known]
                known |= timed_paces(unknown, lambda cell: cell.config.workers or 1)
            seconds = Pace(rest, self.jobs, known).seconds_left
            assert seconds is not None
            print_line(f"The other {len(rest)} take about {duration(seconds)}, {self.jobs} at a time.")
        for sentence in blocked.values():
            complain(sentence)
        return 2 if blocked else 0

    def run(self, display: str) -> Outcomes:
        """Run what is not done, and say what failed."""
        expected = paces_in(self.store, self.to_do)
        folder = SweepFolder(self.folder, self.cells, self.text)
        try:
            shown = SweepDisplay(console, Pace(self.cells, self.jobs, expected), display)
            with shown.bars:
                done = len(self.cells) - len(self.to_do)
                shown.say(f"{plural(len(self.cells), 'cell')} in {self.folder}, {done} done, {self.jobs} at a time")
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


def exit_code(outcomes: Outcomes) -> int:
    """Return 128 + n after signal n; 1 if a cell failed or diverged."""
    if outcomes.signal is not None:
        return 128 + outcomes.signal
    return int(any(outcome.state in ("failed", "diverged") for outcome in outcomes.all))


# --------------------------------------------------------------------------------------------------------------------
# Cells as they go: bars on a terminal, a line now and then elsewhere, JSON lines for programs.

LINE_EVERY = 30.0
"""Seconds between lines about cells that are still running."""


class SweepDisplay:
    """Follows the cells of a sweep and shows them as `mode` says. All metrics that a run is judged by are shares."""

    def __init__(self, console: Console, pace: Pace, mode: str, *, now: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if mode == "auto":
            mode = "live" if console.is_terminal and not console.is_dumb_terminal else "plain"
        self.console, self.pace, self.mode, self.now = console, pace, mode, now
        self.best: dict[str, float] = {}
        self.ended, self.failed = 0, 0
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
            rounds = event.cell.config.rounds
            self.tasks[event.cell.key] = self.bars.add_task(event.cell.title, total=rounds, note="starting")
        elif isinstance(event, Advanced):
            self._advance(event)
        elif isinstance(event, Ended):
            self._end(event)
        elif isinstance(event, Postponed):
            self.say(f"{event.cell.title}: waiting for process {event.process}, which still writes {event.folder}")
        else:
            self.say("finishing the rounds that are running, then stopping; interrupt again to quit at once")
        self.bars.update(self.all, completed=self.ended, note=self._left())

    def _advance(self, event: Advanced) -> None:
        key = event.cell.key
        if event.value is not None:
            self.best[key] = max(event.value, self.best.get(key, event.value))
        self.bars.update(self.tasks[key], completed=event.done, note=percent(event.value))
        if self.mode == "plain" and self.now() - self.printed_at >= LINE_EVERY:
            running = (f"{task.description} {task.completed:g}/{task.total:g}" for task in self.bars.tasks[1:])
            self.say(f"{self._count()}; running: {'; '.join(running)}; {self._left()}")
            self.printed_at = self.now()

    def _end(self, event: Ended) -> None:
        outcome, key = event.outcome, event.outcome.cell.key
        if (task := self.tasks.pop(key, None)) is not None:
            self.bars.remove_task(task)
        self.ended += outcome.state != "interrupted"
        self.failed += outcome.state == "failed"
        if not outcome.ran and outcome.done:  # before
            return
        took = f" in {hours_minutes_seconds(outcome.seconds)}" if outcome.ran else ""
        where = " on validation data" * bool(outcome.cell.config.validation)
        best = f", best {percent(self.best[key])}{where}" if key in self.best else ""
        self.say(f"{outcome.cell.title}: {outcome.state}{took}{best}; {self._count()}, {self._left()}")
        self.printed_at = self.now()

    def _count(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {len(self.pace.cells)} done{failed}"

    def _left(self) -> str:
        left = self.pace.seconds_left
        return "time left unknown" if left is None else f"about {hours_minutes_seconds(left)} left"

    def _write(self, event: CellEvent) -> None:
        fields = asdict(event.outcome) if isinstance(event, Ended) else asdict(event)
        if not isinstance(event, Stopping):
            cell = event.outcome.cell if isinstance(event, Ended) else event.cell
            fields = {"cell": cell.title, "key": cell.key} | {k: v for k, v in fields.items() if k != "cell"}
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        plain = {name: str(value) if name == "folder" and value else value for name, value in fields.items()}
        self.console.file.write(to_json({"event": f"Cell{type(event).__name__}", "time": moment, **plain}) + "\n")
        self.console.file.flush()
