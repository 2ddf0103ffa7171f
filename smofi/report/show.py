"""A run at a glance, from the files in its folder alone: finished, still going, interrupted or diverged.

Only reads, and takes no lock, so that looking never disturbs the writer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from smofi.report.canvas import can_braille
from smofi.report.curves import FAINT, draw, finite
from smofi.report.plan import duration, megabytes
from smofi.report.progress import Progress, bar, clock, percent, size, three_digits, time_unit
from smofi.report.table import Run, measure, table
from smofi.runs import RunFolder, folders_in, writer_of

COLOURS = {"finished": "green", "still going": "cyan", "interrupted": "yellow", "diverged": "red"}


def show_run(folder: str | Path) -> RenderableType:
    """What `smofi show` prints about a run folder, or about a comparison's folder of run folders.

    >>> show_run("no-such-folder")
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, and there is none
    """
    path, runs = Path(folder), runs_in(folder)
    return OneRun(runs[0]) if runs[0].path == path else Comparison(path, runs)


def runs_in(folder: str | Path) -> list[Seen]:
    """The run whose folder this is, or those of a comparison, in the order of its configuration."""
    path = Path(folder)
    runs = [Seen.read(one) for one in folders_in(path)]
    return runs if runs[0].path == path else _in_order(path, runs)


@dataclass(frozen=True)
class Seen:
    """What the files of one run folder say at this moment."""

    folder: RunFolder
    config: Mapping[str, Any]
    about: Mapping[str, Any]
    records: list[dict[str, Any]]
    result: Mapping[str, Any] | None
    writer: str | None

    @classmethod
    def read(cls, folder: RunFolder) -> Seen:
        """Read a folder, whole or not. The writer is looked for first: if it ends meanwhile, its result is there."""
        writer = writer_of(folder.path)
        return cls(
            folder,
            config=folder.config() or {},
            about=folder.about() or {},
            records=folder.records(),
            result=folder.result(),
            writer=writer,
        )

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def method(self) -> str:
        method = self.config.get("method", self.path.name)
        return " ".join(map(str, method)) if isinstance(method, (list, tuple)) else str(method)

    @property
    def progress(self) -> Progress:
        rounds = int(self.config.get("rounds") or len(self.records))
        seconds = [one.get("seconds") for one in self.records]
        return Progress(self.method, rounds, self.accuracies, [one for one in seconds if one is not None])

    @property
    def accuracies(self) -> list[float | None]:
        return [one.get("accuracy") for one in self.records]

    @property
    def hours(self) -> list[float]:
        """Virtual time at the end of each round; none without a clock."""
        ends = (one.get("virtual_end") for one in self.records)
        return [end / 3600 for end in ends if end is not None]

    @property
    def evaluated(self) -> list[int]:
        """The rounds after which anything was measured."""
        return [
            number
            for number, one in enumerate(self.records, start=1)
            if one.get("metrics") or any(one.get(name) is not None for name in ("accuracy", "loss", "validation"))
        ]

    @property
    def state(self) -> str:
        """A result counts if it is about the rounds that are there: a run may have been resumed since."""
        if self.writer:
            return "still going"
        if self.result and self.result.get("rounds") == len(self.records):
            if self.result.get("diverged"):
                return "diverged"
            if self.result.get("stopped") or len(self.records) >= self.progress.rounds:
                return "finished"
        return "interrupted"

    @property
    def heading(self) -> Text:
        run = self.progress
        text = Text(f"{self.method}  ", style="bold") + Text(self.state, style=COLOURS[self.state])
        text += Text(f", round {run.done} of {run.rounds}", style="not bold")
        return text + Text(f", process {self.writer}" if self.writer else "")


class OneRun:
    """A run: what it is, how far it has come, its curve and its diagnostics."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unicode = can_braille(options.encoding)
        yield self.seen.heading
        facts = [("folder", str(self.seen.path)), *_settings(self.seen)]
        yield _facts([*facts, *_progress(self.seen, unicode), *_files(self.seen)])
        curves = {self.seen.method: self.seen.accuracies}
        if finite(self.seen.accuracies):
            yield draw(curves, width=max(20, min(options.max_width, 100)), encoding=options.encoding)
        if measures := _diagnostics(self.seen.records):
            drawn = Table("diagnostics", box=None, padding=(0, 2, 0, 0))
            for head in ("first", "last", "mean"):
                drawn.add_column(head, justify="right")
            for name, values in measures.items():
                drawn.add_row(name.replace("_", " "), *(f"{one:.4g}" for one in (values[0], values[-1], fmean(values))))
            yield drawn


class Comparison:
    """Several methods side by side."""

    def __init__(self, path: Path, runs: list[Seen]) -> None:
        self.path, self.runs = path, runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _facts([("folder", str(self.path)), *_settings(self.runs[0])])
        yield self._states()
        if not any(seen.writer for seen in self.runs) and any(seen.state == "interrupted" for seen in self.runs):
            yield _facts([("to continue", f"smofi run --resume {self.path}")])
        runs = [
            Run(seen.method, seen.accuracies, sum(seen.progress.seconds), hours=seen.hours)
            for seen in self.runs
            if finite(seen.accuracies)
        ]
        if runs:
            names = [run.name for run in runs]
            rows = measure(runs, baseline="fedavg" if "fedavg" in names else names[0])
            yield table(rows)
            curves = {run.name: run.accuracies for run in runs}
            width = max(20, min(options.max_width, 100))
            yield draw(curves, target=rows[0].target, width=width, encoding=options.encoding)
        measures = {name: None for seen in self.runs for name in _diagnostics(seen.records)}
        if measures:
            yield self._diagnosed(list(measures))

    def _states(self) -> Table:
        """A row each. One process trains them in turn, so all but the first that is not done are waiting."""
        states = Table.grid(padding=(0, 2, 0, 0))
        busy = False
        for seen in self.runs:
            run, state = seen.progress, seen.state
            if state == "still going" and busy and not seen.records:
                state = "waiting"
            busy = busy or state == "still going"
            note = str((seen.result or {}).get("stopped") or "") if state in ("finished", "diverged") else ""
            if state == "still going" and run.left is not None:
                note = f"about {clock(run.left)} left"
            cells = (f"{run.done}/{run.rounds}", f"last {percent(run.last)}", note)
            states.add_row(Text(seen.method), Text(state, style=COLOURS.get(state, "")), *map(Text, cells))
        return states

    def _diagnosed(self, measures: list[str]) -> Table:
        drawn = Table("mean over rounds", box=None, padding=(0, 2, 0, 0))
        for name in measures:
            drawn.add_column(name.replace("_", " "), justify="right")
        for seen in self.runs:
            known = _diagnostics(seen.records)
            cells = [f"{fmean(known[name]):.4g}" if name in known else "-" for name in measures]
            drawn.add_row(Text(seen.method), *cells)
        return drawn


def _settings(seen: Seen) -> list[tuple[str, str]]:
    def of(name: str) -> Any:
        return seen.config.get(name, "?")

    facts = []
    if seen.config:
        width = f" width {of('width')}" if seen.config.get("width") is not None else ""
        facts += [
            (
                "data",
                f"{of('data')} by {of('partition')}, {of('clients')} clients, {of('participation')} of them a round",
            ),
            ("model", f"{of('model')}{width} cut at {of('cut')}"),
            ("training", f"{of('optimizer')}, batch size {of('batch_size')}, {of('local_epochs')} local epochs"),
            ("seed", f"{of('seed')}, on {of('device')}"),
        ]
    if seen.config.get("clock", "none") != "none":
        patience = f", {of('step_deadline')} s for a step" if seen.config.get("step_deadline") else ""
        facts.append(("clock", f"{of('clock')}, devices {of('devices')}, available {of('availability')}{patience}"))
    if seen.about.get("started"):
        versions = ", ".join(f"{name} {seen.about[name]}" for name in ("smofi", "torch") if name in seen.about)
        facts.append(("started", f"{seen.about['started']}" + (f" with {versions}" if versions else "")))
    return facts


def _progress(seen: Seen, unicode: bool) -> list[tuple[str, str]]:
    run = seen.progress
    facts = [("progress", "".join(bar(run.part, 40, unicode=unicode)) + f" {run.part:.0%}")]
    if seen.records and not seen.evaluated:
        facts.append(("accuracy", "not evaluated yet"))
    when = f"after round {seen.evaluated[-1]}" if seen.evaluated and seen.evaluated[-1] < run.done else "now"
    if run.best is not None:
        reached = 1 + run.accuracies.index(run.best)
        text = f"{percent(run.last)} {when}, {percent(run.best)} at best (round {reached})"
        facts.append(("accuracy", text if when == "now" else f"{text}; round {run.done} is not evaluated"))
    if known := finite([one.get("validation") for one in seen.records]):
        facts.append(("validation", f"{percent(known[-1])} {when}, {percent(max(known))} at best"))
    if run.pace is not None:
        text = f"{three_digits(run.pace)} s a round, {clock(sum(run.seconds))} in all"
        if seen.state == "still going":
            text += f", about {clock(run.left)} left; {_ago(seen.folder.last_written)}"
        facts.append(("time", text))
    if seen.hours:
        facts.append(("virtual", _virtual(seen)))
    if seen.state != "still going" and seen.result and seen.result.get("stopped"):
        facts.append(("stopped", str(seen.result["stopped"])))
    if seen.state == "interrupted":
        facts.append(("to continue", f"smofi run --resume {seen.path}"))
    return facts


def _virtual(seen: Seen) -> str:
    """What all rounds took on the clients' devices."""

    def all_of(name: str) -> list[Any]:
        return [value for one in seen.records for value in one.get(name) or ()]

    unit, in_an_hour = time_unit(seen.hours[-1])
    text = f"{three_digits(in_an_hour * seen.hours[-1])} {unit}, "
    text += f"{duration(3600 * seen.hours[-1] / len(seen.hours))} a round"
    text += f"; {megabytes(sum(all_of('bytes_up')))} up, {megabytes(sum(all_of('bytes_down')))} down"
    if idle := finite(all_of("idle")):
        text += f"; clients wait {percent(fmean(idle))} of their time"
    if left_out := all_of("left_out"):
        text += f"; late or gone {len(left_out)} of {len(all_of('selected'))} times"
    return text


def _files(seen: Seen) -> list[tuple[str, str]]:
    folder = seen.folder
    kept = [f"round {number}" for number in folder.saved_rounds()] + ["best"] * folder.has_best
    facts = [("checkpoints", ", ".join(kept) or "none yet")]
    if folder.model_file.exists():
        facts.append(("model file", f"{folder.model_file.name}, {size(folder.model_file.stat().st_size)}"))
    return facts


def _diagnostics(records: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The values of each measure in the rounds that have it."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, value in (record.get("diagnostics") or {}).items():
            found.setdefault(name, []).extend(finite([value]))
    return {name: values for name, values in found.items() if values}


def _facts(facts: list[tuple[str, str]]) -> Table:
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(style=FAINT, no_wrap=True, min_width=11)
    drawn.add_column(overflow="fold")
    for name, text in facts:
        drawn.add_row(name, Text(text))
    return drawn


def _in_order(path: Path, runs: list[Seen]) -> list[Seen]:
    """As the comparison's own configuration names the methods."""
    methods = (RunFolder(path).config() or {}).get("method") or []
    order = {str(method): number for number, method in enumerate(methods)}
    return sorted(runs, key=lambda seen: order.get(seen.method, len(order)))


def _ago(moment: float) -> str:
    return f"last round {clock(max(0.0, time.time() - moment))} ago"
