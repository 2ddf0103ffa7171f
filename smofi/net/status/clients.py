"""What is known of a client: where it stands, how fast it is, what it sent."""

from __future__ import annotations

from typing import Any

from smofi.net.plain import plain_text
from smofi.net.status.parts import Part

STATES = ("waiting", "training", "evaluating", "away", "left", "refused")
GONE = frozenset({"away", "left", "refused"})
"""States in which a client is not connected."""

DOING = ("waiting", "training", "evaluating")
"""What a client that has joined does; the others are about its connection."""

MOST_CLIENTS = 2000
KEPT_SHARE = 0.9  # of a client's earlier steps and seconds, at each new step: speed is that of the last ten or so


class Client:
    """One client. Times are seconds since 1970; `step` counts the steps of the current round, `total_steps` all.

    That its connection is lost and what it does are two things: the transport knows of one, the run of the other, each
    in its own thread. So it does what it did before when it is back.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: int | None = None
        self.samples: int | None = None
        self.address = ""
        self.reason = ""
        self.joins = 0
        self.step = 0
        self.steps = 0
        self.total_steps = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.last_seen: float | None = None
        self._does = "waiting"
        self._away_since: float | None = None
        self._last_step: float | None = None
        self._recent_steps = 0.0
        self._recent_seconds = 0.0

    @property
    def state(self) -> str:
        """One of `STATES`."""
        return "away" if self._away_since is not None and self._does not in GONE else self._does

    def do(self, what: str) -> None:
        """What it does from now on, in a conversation that goes on or is over."""
        self._does = what
        if what in GONE:
            self._away_since = None

    def begin(self) -> None:
        """A new conversation: it has joined."""
        self._does, self._away_since, self.reason = "waiting", None, ""
        self.joins += 1
        self.interrupt()

    def go_away(self, now: float) -> bool:
        """Its connection is lost; whether that is news."""
        if self.state in GONE:
            return False
        self._away_since = now
        return True

    def come_back(self, now: float) -> float | None:
        """It has a connection again; for how many seconds it had none, None if that is no news."""
        since, self._away_since = self._away_since, None
        self.interrupt()
        return None if since is None or self._does in GONE else max(0.0, now - since)

    def take_step(self, step: int, of: int, now: float) -> None:
        """Step number `step` of the round's `of` steps is done; `now` is of a clock that never goes back."""
        self.steps = of
        if step <= self.step:  # it was sent again
            return
        new, self.step = step - self.step, step
        self.total_steps += new
        if self._last_step is not None:
            self._recent_steps = KEPT_SHARE * self._recent_steps + new
            self._recent_seconds = KEPT_SHARE * self._recent_seconds + now - self._last_step
        self._last_step = now

    def begin_round(self) -> None:
        """Steps count from 0 again."""
        self.step = self.steps = 0
        self.interrupt()

    def interrupt(self) -> None:
        """The time until the next step says nothing of the client's speed: it is between rounds, or was away."""
        self._last_step = None

    @property
    def speed(self) -> float | None:
        """Steps per second of late, None before the second step and while the client is not connected."""
        if self.state in GONE or not self._recent_seconds:
            return None
        return self._recent_steps / self._recent_seconds

    def plain(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        known = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return known | {"state": self.state, "speed": self.speed}


class Roster(Part[str, Client]):
    """All clients by name; of those that are gone, some are forgotten where there are too many."""

    def client(self, name: str) -> Client:
        """The client of this name, or a new one."""
        key = plain_text(name, most=100)
        return self.items.get(key) or Client(key)

    def touched(self, client: Client, version: int) -> None:
        """Say that a client has changed."""
        self.put(client.name, client, version)
        if len(self.items) > MOST_CLIENTS:
            gone = [name for name, one in self.items.items() if one.state in GONE and one is not client]
            self.remove(gone[: MOST_CLIENTS // 10] or [next(iter(self.items))], version)

    @property
    def connected(self) -> int:
        return sum(client.state not in GONE for client in self.items.values())
