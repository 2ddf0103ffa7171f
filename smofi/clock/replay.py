"""A round on the clients' devices, replayed event by event: which clients work, wait, are late or leave.

A step of a client is a sequence of legs, some of them on the server. When the next step begins depends on the method:

    "step"     when the slowest has taken this one                     SMoFi, SFLV1(step), SFLV2(step), MergeSFL
    "epoch"    at once, but all wait at the end of every epoch         SFLV1(epoch)
    "round"    at once: no client waits before the round is over        FedAvg and all that build on it
    "client"   at once, but a client begins when the last has ended    SFLV2(client)

With a deadline, a tick ends when all that began a step in it have taken it, or when the time is up; then the others are
late, and their step counts in the tick in which it is done. No tick ends before a client has arrived. A client that
takes a step in the tick in which it began is on time again. The round ends when those on time have finished; if all are
late, when the first of them has. In the first tick, time runs from when the first client has fetched the model.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

# --------------------------------------------------------------------------------------------------------------------
# What clients have to do in a round, how they wait for each other, and how the round went.

SERVER = "server"
"""The kind of leg that a client spends on the server; all others are its own: "compute", "up", "down" or "latency"."""

LATENCY = "latency"  # a message is under way, however short it is


@dataclass(frozen=True)
class Leg:
    """Part of a step, and the seconds it takes."""

    kind: str
    seconds: float


@dataclass(frozen=True)
class Job:
    """A client's work in a round: `fetch` the model, take its steps, and `give` back what it has learnt. The client is
    gone at the time `leaves`."""

    step: tuple[Leg, ...]
    steps: int
    epoch_steps: int
    fetch: tuple[Leg, ...] = ()
    give: tuple[Leg, ...] = ()
    leaves: float = math.inf


@dataclass(frozen=True)
class Rules:
    """Say where clients wait, and how the server works: on `parallel` of them at a time, first come, first served; on
    one after the other in the order of `visits`, a list for every tick; or on all of a tick together (`merges`)."""

    waits: str
    parallel: float = math.inf
    visits: Sequence[Sequence[int]] | None = None
    merges: bool = False
    deadline: float = math.inf


@dataclass(frozen=True)
class Span:
    """A row's activity from `start` to `end`; in between, it waited."""

    row: int
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Replayed:
    """A round that is over. Lists have an entry per row: its steps, its seconds of work, when it was done, stopped or
    gone, and whether it had left before it could give anything back. `landed` has the rows whose step was done in each
    tick, where clients wait at every step."""

    end: float
    steps: list[int]
    busy: list[float]
    until: list[float]
    gone: list[bool]
    landed: list[list[int]]
    spans: list[Span]


# --------------------------------------------------------------------------------------------------------------------
# A round on the clients' devices, replayed event by event: which clients work, wait, are late or leave.

WAITS = Leg("wait", 0.0)  # for its next step to be released, or has none left
DONE, LEFT, DEADLINE = range(3)  # kinds of events; of simultaneous events, the earlier kind comes first


@dataclass
class _Row:
    job: Job
    legs: Iterator[Leg]
    until: float
    done: int = 0
    started_in: int = -1
    visits: int = 0
    leg: Leg = WAITS
    since: float = 0.0
    busy: float = 0.0
    late: bool = False
    gone: bool = False

    @property
    def left(self) -> bool:
        """Tell whether it has steps to take."""
        return self.done < self.job.steps and not self.gone


class Replay:
    """One round that begins at `start`. Rows that have taken at least half of their steps give back what they have.

    In a `calm` round no client waits for the server, is late, or leaves: all steps up to the next barrier are one leg.
    """

    def __init__(self, jobs: Sequence[Job], rules: Rules, start: float = 0.0, *, calm: bool = False) -> None:
        self.rules, self.start, self.now, self.calm = rules, start, start, calm
        self.rows = [_Row(job, self._legs(number, job), until=start) for number, job in enumerate(jobs)]
        self.events: list[tuple[float, int, int]] = []
        self.idle: set[int] = set()
        self.arrived: list[int] = []
        self.queue: deque[int] = deque()
        self.free = rules.parallel
        self.tick = -1
        self.turns: deque[int] = deque(rules.visits[0] if rules.visits and rules.waits == "client" else ())
        self.waited: set[int] = set()
        self.working = 0
        self.landed: list[list[int]] = []
        self.spans: list[Span] = []
        self.over = False

    def run(self) -> Replayed:
        """Replay until no client has anything left to do, or nobody waits for the rest."""
        for number, row in enumerate(self.rows):
            row.gone = row.job.leaves <= self.start
            if row.job.leaves < math.inf:
                self._push(row.job.leaves, LEFT, number)
            self._next_leg(number)
        self._proceed()
        while self.events and not self.over:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, kind, number = heapq.heappop(self.events)
                self._handle(kind, number)
            self._proceed()
        return self._end()

    def _legs(self, number: int, job: Job) -> Iterator[Leg]:
        """Yield all that a row does in a round."""
        done, to_barrier = 0, {"step": 1, "epoch": job.epoch_steps}.get(self.rules.waits, job.steps)
        while done < job.steps:
            yield WAITS
            taken = min(to_barrier, job.steps - done) if self.calm else 1
            fetch = () if done else job.fetch
            if self.calm:
                yield Leg("own", seconds(fetch) + taken * seconds(job.step))
            else:
                yield from (*fetch, *job.step)
            done += taken
            self._land(number, taken)

    def _next_leg(self, number: int) -> None:
        row = self.rows[number]
        row.leg, row.since = next(row.legs, WAITS), self.now
        if row.leg is WAITS:
            if row.left:
                self.idle.add(number)
                self.arrived.append(number)
        elif row.leg.kind == SERVER:
            self.queue.append(number)
        else:
            self._push(self.now + row.leg.seconds, DONE, number)

    def _push(self, time: float, kind: int, number: int) -> None:
        heapq.heappush(self.events, (time, kind, number))

    def _handle(self, kind: int, number: int) -> None:
        if kind == DEADLINE:
            if number == self.tick:
                for overdue in self.waited:
                    self.rows[overdue].late = True
                self.waited.clear()
            return
        row = self.rows[number]
        if kind == DONE:
            if row.leg.kind == SERVER:
                self.free += 1
                row.visits -= 1
            if not row.gone:
                self._account(number, row)
                self._next_leg(number)
        elif row.left:  # and leaves now
            if number in self.queue:
                self.queue.remove(number)
            else:
                self._account(number, row)
            self.working -= number not in self.idle
            row.gone, row.until = True, self.now
            self.idle.discard(number)
            self.waited.discard(number)

    def _account(self, number: int, row: _Row) -> None:
        """Count the time of the row's leg until now."""
        if row.leg is not WAITS and self.now > row.since:
            row.busy += self.now - row.since
            self.spans.append(Span(number, row.leg.kind, row.since, self.now))

    def _land(self, number: int, taken: int) -> None:
        row = self.rows[number]
        row.done, row.until = row.done + taken, self.now
        self.working -= 1
        if self.rules.waits == "step":
            self.landed[self.tick].append(number)
            self.waited.discard(number)
            row.late = row.late and row.started_in < self.tick

    def _proceed(self) -> None:
        """Let the server take clients from its queue, and release steps, after all events of this moment."""
        for number, seconds in self._served():
            self.free -= 1
            self.rows[number].since = self.now
            self._push(self.now + seconds, DONE, number)
        for number in self._released():
            row = self.rows[number]
            row.started_in, row.visits = self.tick, sum(leg.kind == SERVER for leg in row.job.step)
            self.idle.discard(number)
            self.working += 1
            self._next_leg(number)

    def _served(self) -> list[tuple[int, float]]:
        """Return the rows that the server starts to serve now, and for how long."""
        if not self.queue:
            return []
        if self.rules.merges:
            if len(self.queue) < len(self.waited):  # some are still on the way
                return []
            times = [self.rows[number].leg.seconds for number in self.queue]
            whole = max(*times, sum(times) / self.rules.parallel)
            return [(self.queue.popleft(), whole) for _ in times]
        if self.rules.visits is not None and self.rules.waits == "step":
            # the first in the order that has not been seen to the end
            while self.turns and not (self.turns[0] in self.waited and self.rows[self.turns[0]].visits):
                self.turns.popleft()
            first = self.turns[0] if self.turns else None
            if first is None or first not in self.queue:
                return []
            self.queue.remove(first)
            return [(first, self.rows[first].leg.seconds)]
        first_come = [self.queue.popleft() for _ in range(int(min(len(self.queue), self.free)))]
        return [(number, self.rows[number].leg.seconds) for number in first_come]

    def _released(self) -> list[int]:
        """Return the waiting rows that may take their next step."""
        waits = self.rules.waits
        if waits == "step":
            return self._next_tick()
        if waits == "round":
            return sorted(self.idle)
        if waits == "epoch":
            within = [n for n in self.arrived if self.rows[n].left and self.rows[n].done % self.rows[n].job.epoch_steps]
            self.arrived.clear()
            return within or ([] if self.working else sorted(self.idle))
        while self.turns and not self.rows[self.turns[0]].left:
            self.turns.popleft()
        return [self.turns[0]] if self.turns and not self.working else []

    def _next_tick(self) -> list[int]:
        """Return the rows that are not in a step, once none is waited for and one has arrived."""
        if self.waited or (self.working and self.tick >= 0 and not self.landed[self.tick]):
            return []
        left = [row for row in self.rows if row.left]
        finished = any(row.done == row.job.steps for row in self.rows)
        if not left or (finished and all(row.late for row in left)):
            self.over = True
            return []
        self.tick += 1
        self.landed.append([])
        self.waited = set(self.idle)
        if self.rules.visits is not None:
            self.turns = deque(self.rules.visits[self.tick])
        if self.rules.deadline < math.inf:
            fetching = [sum(leg.seconds for leg in self.rows[number].job.fetch) for number in self.idle]
            begins = self.now + (min(fetching) if self.tick == 0 else 0.0)  # when the first has the model
            self._push(begins + self.rules.deadline, DEADLINE, self.tick)
        return sorted(self.idle)

    def _end(self) -> Replayed:
        """Stop rows that are in a step; rows that took half of their steps, and have not left, give back what they
        have."""
        for number, row in enumerate(self.rows):
            if row.left:
                if number not in self.queue:
                    self._account(number, row)
                row.until = self.now
            if not row.gone and 2 * row.done >= row.job.steps:
                for leg in row.job.give:
                    row.gone = row.gone or row.until + leg.seconds > row.job.leaves
                    end = min(row.until + leg.seconds, row.job.leaves)
                    row.busy += end - row.until
                    self.spans.append(Span(number, leg.kind, row.until, end))
                    row.until = end
        return Replayed(
            end=max((row.until for row in self.rows), default=self.start),
            steps=[row.done for row in self.rows],
            busy=[row.busy for row in self.rows],
            until=[row.until for row in self.rows],
            gone=[row.gone for row in self.rows],
            landed=[sorted(rows) for rows in self.landed],
            spans=self.spans,
        )


def replay(jobs: Sequence[Job], rules: Rules, start: float = 0.0, *, watch: bool = False) -> Replayed:
    """Replay a round with as few events as tell its times; leg by leg to `watch` it.

    >>> job = Job((Leg("compute", 2.0), Leg("server", 1.0)), steps=4, epoch_steps=4)
    >>> replay([job, job], Rules("round")).end
    12.0
    """
    if watch or not jobs or rules.deadline < math.inf or any(job.leaves < math.inf for job in jobs):
        return Replay(jobs, rules, start).run()
    if rules.parallel < math.inf or rules.merges or (rules.visits is not None and rules.waits != "client"):
        return Replay(list(map(_compact, jobs)), rules, start).run()
    calm = Replay([replace(job, give=()) for job in jobs], rules, calm=True).run()
    gives = [seconds(job.give) for job in jobs]
    until = [start + own + give for own, give in zip(calm.until, gives, strict=True)]
    busy = [seconds(job.fetch) + job.steps * seconds(job.step) + give for job, give in zip(jobs, gives, strict=True)]
    return replace(calm, end=max(until), busy=busy, until=until, landed=[], spans=[])


def seconds(legs: Sequence[Leg]) -> float:
    return sum(leg.seconds for leg in legs)


def _compact(job: Job) -> Job:
    """Merge consecutive legs on the device into one: fewer events, the same times."""
    runs = [list(run) for _, run in groupby(job.step, key=lambda leg: leg.kind == SERVER)]
    legs = [run if run[0].kind == SERVER else [Leg("own", seconds(run))] for run in runs]
    return replace(job, step=tuple(leg for run in legs for leg in run))
