"""A round of a run with a clock, replayed from the run's folder: who works, who waits, who comes late or leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from smofi.clock import Clock
from smofi.clock.replay import Replayed, Span
from smofi.config import Config, read_config
from smofi.config.federation import Federation, gather
from smofi.data.decoded import Progress, silent
from smofi.data.saved import PREFIX as SAVED
from smofi.engine.plan import Planner, RoundPlan
from smofi.errors import InputError, check_count, refuse
from smofi.flat import Layout
from smofi.report.show import Seen, runs_in
from smofi.training import Arguments, make_planner

KINDS = {"compute": "compute", "up": "sending", "server": "server", "down": "receiving"}
"""What a client does when it does not wait, in the order of a step."""


@dataclass(frozen=True)
class Line:
    """A client's round, in seconds from the beginning of the round. Of the steps `planned` it took so many `steps`;
    it was done, stopped or gone at the time `until`, and has been `there` for so long. Between its spans it waited.

    `fate` is "left" or "too late" for a client that is not part of the new model, "late" for one that is and did not
    take all its steps, and empty for all others.

    >>> Line(7, 1, 1, 8.0, 6.0, "", [Span(0, "compute", 0.0, 4.0), Span(0, "up", 4.0, 6.0)]).idle
    0.25
    """

    client: int
    planned: int
    steps: int
    there: float
    until: float
    fate: str
    spans: Sequence[Span]

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Spent on each kind of work."""
        spent = dict.fromkeys(KINDS, 0.0)
        for span in self.spans:
            spent[span.kind] += span.end - span.start
        return spent

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
        """Seconds of nothing."""
        return max(0.0, self.there - self.busy)

    @property
    def idle(self) -> float:
        """The share of its time that it waits."""
        return self.waiting / self.there if self.there else 0.0


@dataclass(frozen=True)
class Timeline:
    """One round of one method, counted from 1; it began so many seconds after the run did, and took `seconds`. Who
    finishes first comes first."""

    setting: str
    method: str
    round: int
    began: float
    seconds: float
    lines: Sequence[Line]

    @property
    def slowest(self) -> Line:
        """Who works longest, and makes others wait."""
        return max(self.lines, key=lambda line: line.busy)

    @property
    def idle(self) -> float:
        """The mean share of their time that clients wait."""
        return fmean(line.idle for line in self.lines)


def read_timelines(folder: str | Path, round: int | None = None, progress: Progress = silent) -> list[Timeline]:
    """A round of the run in this folder, or of every run of a comparison; the last one that all of them have, if it is
    not said which. `progress` watches the data being read.

    >>> read_timelines("no-such-folder")
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, and there is none
    """
    runs = [seen for seen in runs_in(folder) if seen.config.get("clock", "none") != "none"]
    if not runs:
        refuse("folder", str(folder), "a run with a clock, as made by: smofi run --clock full")
    runs = [seen for seen in runs if seen.records]
    if not runs:
        refuse("folder", str(folder), "a run with at least one round behind it")
    last = min(len(seen.records) for seen in runs)
    number = last if round is None else check_count("round", round, high=last)
    federation = gather(_as_divided(runs[0]), progress)
    return [_timeline(seen, number, federation) for seen in runs]


def _as_divided(seen: Seen) -> Config:
    """The run's configuration, its data divided by its own file."""
    own = {"partition": f"{SAVED}{seen.path}", "validation": 0.0}
    return read_config(seen.path / "config.yaml", {}).model_copy(update=own)


def _timeline(seen: Seen, number: int, federation: Federation) -> Timeline:
    config = read_config(seen.path / "config.yaml", {})
    planner = _planner(config, federation)
    clock, before = planner.clock, seen.records[number - 2]["virtual_end"] if number > 1 else 0.0
    assert isinstance(clock, Clock)
    settled = planner.plan(number - 1, before)
    _check_same(seen, number, settled)
    assert settled.time
    began, ended = settled.time.began, settled.time.ended
    _, present = clock.present(planner.eligible, began)
    plan = planner.intended(number - 1, present)
    found = clock.replayed(plan, began, watch=True)
    leaves = [clock.devices[client].presence.leaves(began) for client in plan.clients]
    there = [min(ended, time) - began for time in leaves]
    return Timeline(
        setting=f"{config.data}, {config.clients} clients, {config.model} cut at {config.cut}, clock {config.clock}",
        method=config.method[0],
        round=number,
        began=began,
        seconds=ended - began,
        lines=_lines(plan, found, there, began, settled.time.left_out),
    )


def _planner(config: Config, federation: Federation) -> Planner:
    """What planned the rounds of the run."""
    asked = Arguments(**config.arguments(federation), method=config.method[0])
    return make_planner(asked, Layout.of(asked.model), federation.clients)


def _lines(
    plan: RoundPlan, found: Replayed, there: Sequence[float], began: float, left_out: Sequence[int]
) -> list[Line]:
    spans: dict[int, list[Span]] = {row: [] for row in range(len(plan.clients))}
    for span in found.spans:
        spans[span.row].append(Span(span.row, span.kind, span.start - began, span.end - began))
    lines = []
    for row, (client, planned, steps) in enumerate(zip(plan.clients, plan.steps, found.steps, strict=True)):
        fate = "late" if steps < planned else ""
        if client in left_out:
            fate = "left" if found.gone[row] else "too late"
        lines.append(Line(client, planned, steps, there[row], found.until[row] - began, fate, spans[row]))
    return sorted(lines, key=lambda line: line.until)


def _check_same(seen: Seen, number: int, plan: RoundPlan) -> None:
    """Refuse to show what did not happen."""
    record: Mapping[str, Any] = seen.records[number - 1]
    assert plan.time
    who = record.get("selected") == plan.clients and record.get("steps") == plan.steps
    if not who or not math.isclose(record.get("virtual_end") or 0.0, plan.time.ended):
        raise InputError(
            f"{seen.path} cannot be replayed: its round {number} would not be the one on record; expected the data, "
            "the devices and the version of smofi that the run was made with"
        )
