"""What the engine's events say of a run: where it stands, and its rounds so far."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from smofi.engine.events import Record, RoundStarted, RunStarted
from smofi.engine.metrics import USUAL, is_share
from smofi.net.plain import finite, plain_text
from smofi.net.status.curve import Point

RECENT = 10  # rounds whose mean duration says how long the rest will take


class Progress:
    """Where a run stands; `done` rounds are finished, `round` is the current one or, between rounds, the last.

    Before its first round a run is `waiting` for something, later it is `paused`; both say for what. Times are seconds
    since 1970. `latest` is the last round that was evaluated, `best` the one with the highest value
    of the metric that is judged, which is the first of `metrics`."""

    def __init__(self) -> None:
        self.state = "waiting"
        self.method = ""
        self.rounds = 0
        self.done = 0
        self.round = 0
        self.step = 0
        self.steps = 0
        self.clients = 0
        self.per_round = 0
        self.parameters = 0
        self.metrics = dict(USUAL)
        self.started: float | None = None
        self.round_since: float | None = None
        self.ended: float | None = None
        self.stopped: str | None = None
        self.waiting: str | None = None
        self.paused: str | None = None
        self.paused_since: float | None = None
        self.paused_seconds = 0.0
        self.latest: Point | None = None
        self.best: Point | None = None
        self.durations: list[float] = []
        self.last_round_end: float | None = None
        self.rounds_timed = 0
        self.seconds_timed = 0.0
        self.warnings = 0

    def start(self, event: RunStarted, now: float) -> None:
        """The run begins, or goes on after `done` rounds."""
        self.state = "paused" if self.paused is not None else "running"
        self.method, self.metrics = plain_text(event.method), dict(event.metrics)
        self.rounds, self.done, self.round = event.rounds, event.done, event.done
        self.clients, self.per_round, self.parameters = event.clients, event.per_round, event.parameters
        self.started, self.ended, self.stopped = now, None, None

    def start_round(self, event: RoundStarted, now: float) -> None:
        self.round, self.step, self.steps = event.round, 0, max(event.steps, default=0)
        self.per_round = len(event.selected)
        self.round_since = now

    def tick(self, tick: int) -> None:
        """Ticks count from 0; turns within a round make more of them than a client has steps."""
        self.step = tick + 1
        self.steps = max(self.steps, self.step)

    def finish_round(self, record: Record, now: float) -> Point:
        """Its point of the curve; the step stays as it is until the next round."""
        self.done = self.round = record.round
        self.round_since, self.last_round_end = None, now
        if (seconds := finite(record.seconds)) is not None:
            self.durations = [*self.durations, seconds][-RECENT:]
            self.rounds_timed += 1
            self.seconds_timed += seconds
        return self.add(record)

    def add(self, record: Record) -> Point:
        """Take note of what a round reached, one from before a resumption as well."""
        point = Point.of(record, self.metrics)
        if record.evaluated and (self.latest is None or point.round >= self.latest.round):
            self.latest = point
        value, best = self.judged(point), self.judged(self.best)
        if value is not None and (best is None or value > best):
            self.best = point
        return point

    def judged(self, point: Point | None) -> float | None:
        """The metric that is judged."""
        return point.values.get(next(iter(self.metrics))) if point else None

    def plain(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        known = dict(vars(self))
        headings = [
            {"name": plain_text(name), "heading": plain_text(heading), "share": is_share(name)}
            for name, heading in self.metrics.items()
        ]
        seconds = fmean(self.durations) if self.durations else None
        left = seconds * (self.rounds - self.done) if seconds is not None and self.ended is None else None
        points = {
            name: point.plain() if point else None for name, point in (("latest", self.latest), ("best", self.best))
        }
        del known["durations"]
        return known | points | {"metrics": headings, "seconds_per_round": seconds, "seconds_left": left}
