"""Print what `smofi show` shows: a run, several methods side by side, or a row for each run of a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.config.definition import seeds_text
from smofi.errors import InputError
from smofi.plural import plural
from smofi.report.curves import NARROWEST, WIDEST, bar, can_braille, draw_curves
from smofi.report.names import clients_of, own_data, short
from smofi.report.numbers import (
    UNKNOWN,
    duration,
    four_digits,
    hours_minutes_seconds,
    mebibytes,
    megabytes,
    percent,
    three_digits,
    time_unit,
)
from smofi.report.results import ACCURACY, History, Scale, compare, finite, seconds_left_in_all
from smofi.report.snapshots import Snapshot, snapshots_in
from smofi.report.style import DIM
from smofi.report.table import clients_table, results_table
from smofi.runs import DamagedFile, RunFolder, names_and_samples, resuming_command, runs_below

# --------------------------------------------------------------------------------------------------------------------
# What is said of a run, as pairs of a name and a text.

Facts: TypeAlias = list[tuple[str, str]]


def settings(run: Snapshot, seeds: Sequence[int] = ()) -> Facts:
    """Say what is trained, how, and since when; with all `seeds` if there are several."""
    config = run.config
    width = f" width {config.width}" if config.width is not None else ""
    share = f"{100 * config.participation:.3g} % of them in each round"
    epochs = plural(config.local_epochs, "local epoch")
    divided = f"{config.partition}, {clients_of(config)}" if run.clients is None else own_data(run.clients)
    facts = [
        ("data", f"{config.data}, {divided}, {share}"),
        *([] if run.clients is None else [("clients", names_and_samples(run.clients))]),
        ("model", f"{config.model}{width} cut at {config.cut}"),
        ("training", f"{config.optimizer}, batch size {config.batch_size}, {epochs}"),
        ("seeds" if len(seeds) > 1 else "seed", f"{seeds_text(seeds or [config.seed])}, on {config.device}"),
    ]
    if config.clock != "none":
        deadline = f", at most {config.step_deadline} s a step" if config.step_deadline else ""
        devices = f"devices: {config.devices}, availability: {config.availability}"
        facts.append(("clock", f"{config.clock}, {devices}{deadline}"))
    if run.about.get("started"):
        versions = ", ".join(f"{name} {run.about[name]}" for name in ("smofi", "torch") if name in run.about)
        facts.append(("started", f"{run.about['started']}" + (f" with {versions}" if versions else "")))
    return facts


def progress(run: Snapshot, unicode: bool) -> Facts:
    done = run.progress.done
    facts = [("progress", "".join(bar(done, 40, unicode=unicode)) + f" {done:.0%}"), *_measured(run)]
    pace = run.progress.seconds_per_round
    if pace is not None:
        text = f"{three_digits(pace)} s a round, {hours_minutes_seconds(run.history.total_seconds)} in all"
        if run.state == "still going":
            left = hours_minutes_seconds(run.progress.seconds_left)
            ago = hours_minutes_seconds(max(0.0, time.time() - run.folder.last_written))
            text += f", about {left} left; last round {ago} ago"
        facts.append(("time", text))
    if run.history.hours:
        facts.append(("virtual", _virtual(run)))
    if run.state != "still going" and run.stopped:
        facts.append(("stopped", run.stopped))
    if run.state == "interrupted":
        facts.append(("to continue", resuming_command(run.folder)))
    return facts


def _measured(run: Snapshot) -> Facts:
    evaluated = run.evaluated
    facts = []
    if run.records and not evaluated:
        facts.append((Scale.of([run.history]).name, "not evaluated yet"))
    when = f"after round {evaluated[-1]}" if evaluated and evaluated[-1] < run.history.rounds else "now"
    for history in (run.history, *run.history.others):
        if history.best is not None:
            metric, reached = Scale.of([history]), 1 + history.values.index(history.best)
            text = f"{metric.text(history.last)} {when}, {metric.text(history.best)} at best (round {reached})"
            facts.append((metric.name, text if when == "now" else f"{text}; round {history.rounds} is not evaluated"))
    if known := finite(record.get("validation") for record in run.records):
        metric = Scale("validation", share=all(0 <= value <= 1 for value in known))
        facts.append((metric.name, f"{metric.text(known[-1])} {when}, {metric.text(max(known))} at best"))
    return facts


def _virtual(run: Snapshot) -> str:
    seconds = 3600 * run.history.hours[-1]
    unit = time_unit(seconds)
    text = f"{three_digits(seconds / unit.seconds)} {unit.name}, {duration(seconds / len(run.history.hours))} a round"
    sent, received = sum(run.values("bytes_up")), sum(run.values("bytes_down"))
    text += f"; {megabytes(sent)} up, {megabytes(received)} down"
    if idle := finite(run.values("idle")):
        text += f"; clients wait {percent(fmean(idle))} of their time"
    if left_out := run.values("left_out"):
        text += f"; late or gone {len(left_out)} of {len(run.values('selected'))} times"
    return text


def files(run: Snapshot) -> Facts:
    folder = run.folder
    kept = [f"round {number}" for number in folder.saved_rounds()] + ["best"] * folder.has_best
    facts = [("checkpoints", ", ".join(kept) or "none yet")]
    if folder.model_file.exists():
        facts.append(("model file", f"{folder.model_file.name}, {mebibytes(folder.model_file.stat().st_size)}"))
    return facts + [("damaged", error.what) for error in run.damaged]


# --------------------------------------------------------------------------------------------------------------------
# One run with its curve and diagnostics, or several methods side by side.

COLOURS = {"finished": "green", "still going": "cyan", "interrupted": "yellow", "diverged": "red", "damaged": "red"}


def show_runs(folder: Path, runs: list[Snapshot], console: Console) -> Group:
    """Return what `smofi show` prints of the runs in a folder: the one run of the folder, or a comparison."""
    shown = _run(runs[0], console) if runs[0].path == folder else _comparison(folder, runs, console)
    return Group(*shown)


def _run(run: Snapshot, console: Console) -> Iterator[RenderableType]:
    process = f", process {run.writer}" if run.writer else ""
    of = f", round {run.history.rounds} of {run.progress.rounds}{process}"
    yield Text.assemble((f"{run.method}  ", "bold"), state_text(run.state), of)
    unicode = can_braille(console.encoding)
    yield _facts_table([("folder", str(run.path)), *settings(run), *progress(run, unicode), *files(run)])
    if run.history.measured:
        yield _curves([run.history], None, console)
    if (clients := clients_table([run.history])) is not None:
        yield clients
    if run.diagnostics:
        listing = Table("diagnostics", box=None, padding=(0, 2, 0, 0))
        for heading in ("first", "last", "mean"):
            listing.add_column(heading, justify="right")
        for name, values in run.diagnostics.items():
            listing.add_row(name.replace("_", " "), *map(four_digits, (values[0], values[-1], fmean(values))))
        yield listing


def _comparison(folder: Path, runs: list[Snapshot], console: Console) -> Iterator[RenderableType]:
    seeds = list(dict.fromkeys(run.config.seed for run in runs))
    yield _facts_table([("folder", str(folder)), *settings(runs[0], seeds)])
    yield from _states(runs, several=len(seeds) > 1)
    if not any(run.writer for run in runs) and any(run.state == "interrupted" for run in runs):
        yield _facts_table([("to continue", resuming_command(RunFolder(folder)))])
    histories = [run.history for run in runs if run.history.measured]
    if rows := compare(histories):
        yield results_table(rows)
        yield _curves(histories, rows[0].target, console)
    if (clients := clients_table([one for one in histories if one.seed == seeds[0]])) is not None:
        yield clients
    if names := list(dict.fromkeys(name for run in runs for name in run.diagnostics)):
        listing = Table("mean over rounds", box=None, padding=(0, 2, 0, 0))
        for name in names:
            listing.add_column(name.replace("_", " "), justify="right")
        for run in runs:
            known = [run.diagnostics.get(name) for name in names]
            cells = [four_digits(fmean(values)) if values else UNKNOWN for values in known]
            listing.add_row(Text(", ".join(_called(run, several=len(seeds) > 1))), *cells)
        yield listing


def _states(runs: Sequence[Snapshot], *, several: bool) -> Iterator[RenderableType]:
    """Make a row for each run. One process trains them in turn, so those after the one it trains are waiting."""
    states = Table.grid(padding=(0, 2, 0, 0))
    training = False
    for run in runs:
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
        states.add_row(*map(Text, _called(run, several=several)), state_text(state), *map(Text, cells))
    yield states
    if several:
        done = sum(run.state in ("finished", "diverged") for run in runs)
        text = f"{done} of {len(runs)} runs done"
        ahead = [replace(run.progress, state="done" if run.result else "running") for run in runs]
        if any(run.writer for run in runs) and (left := seconds_left_in_all(ahead)) is not None:
            text += f", about {hours_minutes_seconds(left)} left in all"
        yield Text(text, style=DIM)


def _called(run: Snapshot, *, several: bool) -> list[str]:
    """Name a run's seed, where there are several, and its method."""
    return [f"seed {run.config.seed}", run.method] if several else [run.method]


def _curves(histories: Sequence[History], target: float | None, console: Console) -> Text:
    width = max(NARROWEST, min(console.width, WIDEST))
    return draw_curves(histories, target=target, width=width, encoding=console.encoding)


def state_text(state: str) -> Text:
    return Text(state, style=COLOURS.get(state, ""))


def _facts_table(facts: Facts) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=DIM, no_wrap=True, min_width=11)
    grid.add_column(overflow="fold")
    for name, text in facts:
        grid.add_row(name, Text(text))
    return grid


# --------------------------------------------------------------------------------------------------------------------
# A folder that has runs in it: a row for each run.

WIDEST_DATA = 24
"""Up to this many characters, the name of a data set is not broken."""


class Entry(NamedTuple):
    """A folder among others: its runs, or why they cannot be read."""

    path: Path
    runs: list[Snapshot]
    error: InputError | None = None


def entries_below(path: Path) -> list[Entry]:
    """Return the runs and comparisons right below a folder, the latest last; none if there are none."""
    entries = []
    for one in runs_below(path):
        try:
            entries.append(Entry(one, snapshots_in(one)))
        except InputError as error:
            entries.append(Entry(one, [], error))
    return sorted(entries, key=lambda one: (str(one.runs[0].about.get("started", "")) if one.runs else "", one.path))


def missing_config(path: Path) -> list[InputError]:
    """Say that a folder with runs in it was a comparison, and lacks its own settings."""
    with suppress(InputError):  # another program's files
        if (folder := RunFolder(path)).manifest().runs:
            return [DamagedFile(f"{folder.config_file} is missing", "The runs themselves are as they were")]
    return []


def runs_table(path: Path, entries: Sequence[Entry]) -> Group:
    listing = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("folder", "method", "state"):
        listing.add_column(heading, overflow="fold")
    for heading in ("rounds", "best"):
        listing.add_column(heading, justify="right", no_wrap=True)
    words = [word for one in entries for run in one.runs[:1] for word in _data(run).split()]
    listing.add_column("data", overflow="fold", min_width=min(WIDEST_DATA, max(map(len, words), default=0)))
    for entry in entries:
        several = len({run.config.seed for run in entry.runs}) > 1
        for number, run in enumerate(entry.runs):
            metric = Scale.of([run.history])
            best = metric.text(run.history.best) + ("" if metric == ACCURACY else f" {metric.short}")
            listing.add_row(
                Text(entry.path.name if number == 0 else ""),
                Text(f"{run.method}, seed {run.config.seed}" if several else run.method),
                state_text(run.state),
                f"{run.history.rounds}/{run.progress.rounds}",
                best,
                Text(_data(run) if number == 0 else ""),
            )
        if entry.error:
            listing.add_row(Text(entry.path.name), "", state_text("damaged"))
    return Group(listing, Text(f"To see one: smofi show {path / entries[-1].path.name}", style="dim"))


def _data(run: Snapshot) -> str:
    divided = short(run.config.partition) if run.clients is None else "served"
    return f"{short(run.config.data)}, {divided}"
