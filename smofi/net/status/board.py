"""A picture of a served run: fed by the serving code, read by the page, from any thread."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.errors import check_choice
from smofi.net.plain import plain_text
from smofi.net.status.clients import DOING, GONE, Client, Roster
from smofi.net.status.curve import Curve
from smofi.net.status.happened import LEVELS, Events
from smofi.net.status.headline import headline
from smofi.net.status.parts import Part
from smofi.net.status.progress import Progress
from smofi.net.transport.notices import Refusal
from smofi.plural import plural


class Board:
    """A served run as it is now. Every call returns at once: readers take what they need and are never waited for.

    >>> board = Board()
    >>> board.joined("hospital-a", 0, samples=120, address="10.0.0.7:51234")
    >>> board.state("hospital-a", "training")
    >>> [(one["name"], one["state"], one["samples"]) for one in board.snapshot()["clients"]]
    [('hospital-a', 'training', 120)]
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic) -> None:
        self.id = secrets.token_hex(4)  # versions count from 0 again on another board
        self.version = 0
        self._clock, self._timer = clock, timer
        self._lock = threading.Lock()
        self._run = Progress()
        self._history, self._clients, self._events = Curve(), Roster(), Events()
        self._refusals = 0

    # ------------------------------------------------------------------------------------------------- the run

    def callback(self, event: Event) -> None:
        """Take note of one of the engine's events: a callback for a run."""
        now = self._clock()
        with self._changing():
            if isinstance(event, RunStarted):
                self._start(event, now)
            elif isinstance(event, RoundStarted):
                self._run.start_round(event, now)
                for client in self._clients.items.values():
                    client.begin_round()
                    self._clients.touched(client, self.version)
            elif isinstance(event, TickDone):
                self._run.tick(event.tick)
            elif isinstance(event, RoundDone):
                self._history.add(self._run.finish_round(event.record, now), self.version)
            elif isinstance(event, Warned):
                self._run.warnings += 1
                self._say(event.message, "warning")
            elif isinstance(event, RunEnded):
                self._end(event, now)

    def recall(self, records: Iterable[Record]) -> None:
        """Rounds from before the run was resumed, for its curve; after its `RunStarted`."""
        with self._changing():
            for record in records:
                self._history.add(self._run.add(record), self.version)

    def waiting(self, reason: str) -> None:
        """The run has not begun, or not gone on: it waits, for instance for its first clients."""
        with self._changing():
            if self._run.waiting != (text := plain_text(reason)):
                self._run.waiting, self._run.state = text, "waiting"
                self._say(f"Waiting: {text}", "info")

    def paused(self, reason: str) -> None:
        """A run that was going waits, for instance for more clients."""
        with self._changing():
            if self._run.paused is None:
                self._run.paused_since = self._clock()
            if self._run.paused != (text := plain_text(reason)):
                self._run.paused = text
                self._run.state = "paused"
                self._say(f"Paused: {text}", "warning")

    def resumed(self) -> None:
        """What the run waited for is here."""
        with self._changing():
            if self._run.paused is None and self._run.waiting is None:
                return
            said = "Enough clients are here." if self._run.paused is None else "Going on."
            self._go_on()
            self._run.state = "running" if self._run.method else "waiting"
            self._say(said, "info")

    def event(self, text: str, level: str = "info") -> None:
        """Something that people should read, `level` info, warning or error."""
        check_choice("level", level, LEVELS)
        with self._changing():
            self._say(text, level)

    # --------------------------------------------------------------------------------------------- its clients

    def joined(self, name: str, number: int | None, samples: int | None, address: str) -> None:
        """A client has come, or come back."""
        with self._changing(), self._client(name) as client:
            client.number, client.samples, client.address = number, samples, plain_text(address)
            client.last_seen = self._clock()
            client.begin()
            has = f" with {plural(samples, 'sample')}" if samples is not None else ""
            self._say(f"{client.name} {'joined' if client.joins == 1 else 'is back'}{has}.", "info")

    def state(self, name: str, state: str) -> None:
        """What a client does: one of `DOING`."""
        check_choice("state", state, DOING)
        with self._changing(), self._client(name) as client:
            client.do(state)
            client.reason = ""

    def away(self, name: str) -> None:
        """The connection of a client is lost. One that has not joined, or has left, is none of those shown."""
        with self._known(name) as client:
            if client is not None and client.go_away(self._clock()):
                self._say(f"{client.name} is away: its connection is lost.", "warning")

    def back(self, name: str) -> None:
        """A client that was away has a connection again."""
        with self._known(name) as client:
            if client is not None and (seconds := client.come_back(self._clock())) is not None:
                client.last_seen = self._clock()
                self._say(f"{client.name} is back after {seconds:.1f} s.", "info")

    def step(self, name: str, step: int, of: int) -> None:
        """A client has done step `step` of this round's `of`, counted from 1."""
        with self._changing(), self._client(name) as client:
            client.take_step(step, of, self._timer())
            client.last_seen = self._clock()

    def bytes(self, name: str, up: int, down: int) -> None:
        """All bytes that a client sent and received so far."""
        with self._changing(), self._client(name) as client:
            if (up, down) != (client.bytes_up, client.bytes_down):
                client.bytes_up, client.bytes_down, client.last_seen = up, down, self._clock()

    def left(self, name: str, reason: str, refused: bool = False) -> None:
        """A client is gone, or was sent away, and why."""
        with self._changing(), self._client(name) as client:
            client.do("refused" if refused else "left")
            client.reason = plain_text(reason)
            self._say(f"{client.name} {'was refused' if refused else 'left'}: {client.reason}", "warning")

    def refused(self, refusal: Refusal | None) -> None:
        """A connection was refused; it is counted, and told of unless there are too many. A client of this name that is
        connected stays what it is."""
        with self._changing():
            self._refusals += 1
            if refusal is None:
                return
            who = plain_text(refusal.address)
            if refusal.name is not None:
                client = self._clients.client(refusal.name)
                who = f"{client.name} ({who})"
                if client.joins == 0 or client.state in GONE - {"away"}:
                    client.do("refused")
                    client.reason, client.address = plain_text(refusal.reason), plain_text(refusal.address)
                    self._clients.touched(client, self.version)
            times = f", {refusal.times:,} times since this was last said" if refusal.times > 1 else ""
            self._say(f"Refused a connection of {who}{times}: {plain_text(refusal.reason)}", "warning")

    # ------------------------------------------------------------------------------------------------- reading

    def snapshot(self) -> dict[str, Any]:
        """All of it as JSON holds it. Times are seconds since 1970."""
        return self.changes(0)

    def changes(self, since: int) -> dict[str, Any]:
        """What a reader who knows this version has to be told. `whole` names the lists that replace what it has; the
        others have what is new or changed."""
        with self._lock:
            since = since if 0 <= since <= self.version else 0
            parts: dict[str, Part[Any, Any]] = {
                "history": self._history,
                "clients": self._clients,
                "events": self._events,
            }
            return {
                "board": self.id,
                "version": self.version,
                "now": self._clock(),
                "headline": headline(self._run, self._clients.connected),
                "run": self._run.plain(),
                "refused_connections": self._refusals,
                "whole": [name for name, part in parts.items() if part.whole(since)],
                **{name: part.plain(since) for name, part in parts.items()},
            }

    # ------------------------------------------------------------------------------------------- with the lock

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self.version += 1
            yield

    @contextmanager
    def _client(self, name: str) -> Iterator[Client]:
        """A client to change; a name that is new is a new client."""
        client = self._clients.client(name)
        yield client
        self._clients.touched(client, self.version)

    @contextmanager
    def _known(self, name: str) -> Iterator[Client | None]:
        """A client to change, None for a name that is new."""
        with self._changing():
            client = self._clients.client(name)
            known = client.name in self._clients.items
            yield client if known else None
            if known:
                self._clients.touched(client, self.version)

    def _say(self, text: str, level: str) -> None:
        self._events.add(text, level, self._clock(), self.version)

    def _start(self, event: RunStarted, now: float) -> None:
        """A run that goes on keeps its rounds, any other begins with an empty curve."""
        kept = event.done if event.method == self._run.method else 0
        if not kept:
            before, self._run = self._run, Progress()
            self._run.paused, self._run.paused_since = before.paused, before.paused_since
        self._history.keep_until(kept, self.version)
        self._run.start(event, now)
        after = f" after round {event.done:,}" if event.done else ""
        self._say(
            f"{self._run.method} {'goes on' if event.done else 'starts'}{after}: {plural(event.rounds, 'round')}.",
            "info",
        )

    def _end(self, event: RunEnded, now: float) -> None:
        self._go_on()
        self._run.state, self._run.ended, self._run.done = "ended", now, event.rounds
        self._run.stopped = plain_text(event.stopped) if event.stopped else None
        self._say(headline(self._run, 0), "info")

    def _go_on(self) -> None:
        if self._run.paused_since is not None:
            self._run.paused_seconds += max(0.0, self._clock() - self._run.paused_since)
        self._run.paused = self._run.paused_since = self._run.waiting = None
