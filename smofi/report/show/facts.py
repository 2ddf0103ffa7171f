"""What is said of a run, as pairs of a name and a text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean
from typing import TypeAlias

from smofi.plural import plural
from smofi.report.heading import clients_of, own_data
from smofi.report.history import Scale, finite
from smofi.report.numbers import duration, hours_minutes_seconds, mebibytes, megabytes, percent, three_digits, time_unit
from smofi.report.progress import bar
from smofi.report.show.snapshot import Snapshot
from smofi.runs import names_and_samples, resuming_command
from smofi.settings import seeds_text

Facts: TypeAlias = list[tuple[str, str]]


def settings(run: Snapshot, seeds: Sequence[int] = ()) -> Facts:
    """What is trained, how, and since when; with all `seeds` if there are several."""
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
    """How far the run has come, what it has reached, and what it took."""
    done = run.progress.done
    facts = [("progress", "".join(bar(done, 40, unicode=unicode)) + f" {done:.0%}")]
    facts += _measured(run)
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
    """The judged metric, the others, and validation."""
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
    """What all rounds took on the clients' devices."""
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
    """The checkpoints and the model."""
    folder = run.folder
    kept = [f"round {number}" for number in folder.saved_rounds()] + ["best"] * folder.has_best
    facts = [("checkpoints", ", ".join(kept) or "none yet")]
    if folder.model_file.exists():
        facts.append(("model file", f"{folder.model_file.name}, {mebibytes(folder.model_file.stat().st_size)}"))
    return facts + [("damaged", error.what) for error in run.damaged]
