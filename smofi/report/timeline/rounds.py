"""A round of a run with a clock, replayed from the run's folder: who works, who waits, who comes late or leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from smofi.clock import Clock
from smofi.clock.jobs import LATENCY, Replayed, Span
from smofi.config import Config
from smofi.config.federation import Federation, gather
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.engine.plan import Planner, RoundPlan
from smofi.errors import InputError, check_count, refuse
from smofi.flat import Layout
from smofi.report.heading import details, setting
from smofi.report.show import Snapshot, snapshots_in
from smofi.training import Arguments, make_planner

KINDS = {"compute": "compute", "up": "sending", "server": "server", "down": "receiving", LATENCY: "latency"}
"""What a client does when it does not wait, in the order of a step, and how long its messages are under way."""


@dataclass(frozen=True)
class Line:
    """A client's round, in seconds from its beginning. The client took `steps` of the steps `planned`; it was done,
    stopped or gone at the time `until`, and was `present` for this long. Between its spans it waited.

    `fate` is "left" or "too late" for a client that is not part of the new model, "late" for one that is and did not
    take all its steps, and empty for all others.

    >>> Line(7, 1, 1, 8.0, 6.0, "", [Span(0, "compute", 0.0, 4.0), Span(0, "up", 4.0, 6.0)]).idle
    0.25
    """

    client: int
    planned: int
    steps: int
    present: float
    until: float
    fate: str
    spans: Sequence[Span]
    name: str = ""

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Spent on each kind of work."""
        spent = dict.fromkeys(KINDS, 0.0)
        for span in self.spans:
            spent[span.kind] += span.end - span.start
        return spent

    @property
    def called(self) -> str:
        """The client's name, or else its number."""
        return self.name or f"client {self.client}"

    @property
    def busy(self) -> float:
        """Seconds of all kinds of work."""
        return sum(self.seconds.values())

    @property
    def lost(self) -> bool:
        """Whether it is not part of the new model."""
        return self.fate in ("left", "too late")

    @property
    def waiting(self) -> float:
        """Seconds without work."""
        return max(0.0, self.present - self.busy)

    @property
    def idle(self) -> float:
        """The share of its time that it waits."""
        return self.waiting / self.present if self.present else 0.0


@dataclass(frozen=True)
class Timeline:
    """One round of one method, counted from 1; it started at `start`, in seconds of the run's virtual time, and took
    `seconds`. The client that finishes first comes first."""

    setting: str
    method: str
    round: int
    start: float
    seconds: float
    lines: Sequence[Line]
    details: str = ""

    @property
    def kinds(self) -> list[str]:
        """The kinds of work that there are: latency only where it is counted."""
        return [kind for kind in KINDS if kind != LATENCY or any(line.seconds[kind] for line in self.lines)]

    @property
    def slowest(self) -> Line:
        """The client that works longest, and makes others wait."""
        return max(self.lines, key=lambda line: line.busy)

    @property
    def idle(self) -> float:
        """The mean share of their time that clients wait."""
        return fmean(line.idle for line in self.lines)


def read_timelines(folder: str | Path, round: int | None = None, progress: ReadProgress = silent) -> list[Timeline]:
    """A round of the run in this folder, or of every run of a comparison, of several seeds those with the first; by
    default the last one that all of them have. `progress` watches the data being read.

    >>> read_timelines("no-such-folder")
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    runs = [run for run in snapshots_in(folder) if run.config.clock != "none"]
    if not runs:
        refuse("folder", str(folder), "a run with a clock, for example made by: smofi run --clock full")
    runs = [run for run in runs if run.records]
    if not runs:
        refuse("folder", str(folder), "a run with at least one finished round")
    runs = [run for run in runs if run.config.seed == runs[0].config.seed]
    last = min(len(run.records) for run in runs)
    number = last if round is None else check_count("round", round, high=last)
    federation = gather(as_divided(runs[0]), progress)
    return [timeline_of(run, number, federation) for run in runs]


def as_divided(run: Snapshot) -> Config:
    """The run's configuration, its data divided by its own file."""
    saved = {"partition": f"{SAVED}{run.path}", "validation": 0.0}
    return run.config.model_copy(update=saved)


def timeline_of(run: Snapshot, number: int, federation: Federation) -> Timeline:
    """A round of a run, counted from 1, with the data as the run divided it."""
    config = run.config
    planner = _planner(config, federation)
    clock, before = planner.clock, run.records[number - 2]["virtual_end"] if number > 1 else 0.0
    assert isinstance(clock, Clock)
    settled = planner.plan(number - 1, before)
    _check_same(run, number, settled)
    assert settled.time
    start, end = settled.time.began, settled.time.ended
    _, available = clock.present(planner.eligible, start)
    plan = planner.intended(number - 1, available)
    replayed = clock.replayed(plan, start, watch=True)
    leaves = [clock.devices[client].presence.leaves(start) for client in plan.clients]
    present = [min(end, time) - start for time in leaves]
    return Timeline(
        setting=setting(config),
        details=details(config),
        method=config.method[0],
        round=number,
        start=start,
        seconds=end - start,
        lines=_named(_lines(plan, replayed, present, start, settled.time.left_out), federation.client_names),
    )


def _planner(config: Config, federation: Federation) -> Planner:
    """What planned the rounds of the run."""
    arguments = Arguments(**config.arguments(federation), method=config.method[0])
    return make_planner(arguments, Layout.of(arguments.model), federation.clients)


def _lines(
    plan: RoundPlan, replayed: Replayed, present: Sequence[float], start: float, left_out: Sequence[int]
) -> list[Line]:
    spans: dict[int, list[Span]] = {row: [] for row in range(len(plan.clients))}
    for span in replayed.spans:
        spans[span.row].append(Span(span.row, span.kind, span.start - start, span.end - start))
    lines = []
    for row, (client, planned, steps) in enumerate(zip(plan.clients, plan.steps, replayed.steps, strict=True)):
        fate = "late" if steps < planned else ""
        if client in left_out:
            fate = "left" if replayed.gone[row] else "too late"
        lines.append(Line(client, planned, steps, present[row], replayed.until[row] - start, fate, spans[row]))
    return sorted(lines, key=lambda line: line.until)


def _named(lines: Sequence[Line], names: Sequence[str]) -> list[Line]:
    return [replace(line, name=names[line.client]) for line in lines] if names else list(lines)


def _check_same(run: Snapshot, number: int, plan: RoundPlan) -> None:
    """Refuse to show what did not happen."""
    record: Mapping[str, Any] = run.records[number - 1]
    assert plan.time
    same_clients = record.get("selected") == plan.clients and record.get("steps") == plan.steps
    if not same_clients or not math.isclose(record.get("virtual_end") or 0.0, plan.time.ended):
        raise InputError(
            f"{run.path} cannot be replayed: its round {number} comes out differently from its record; expected the "
            "data, the devices and the version of smofi that the run was made with"
        )
