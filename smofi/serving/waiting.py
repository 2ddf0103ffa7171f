"""What a client's user is told while the server cannot be reached: what is wrong, and not at every attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

from smofi.plural import plural

FIRST, LONGEST = 60.0, 3600.0
"""Seconds after which the same is said again, at first and at most: twice as many each time."""


class Waits:
    """Says why a client waits: each reason once, and again after a minute, two minutes, four, up to an hour.

    >>> waits = Waits(print)
    >>> waits.wait("nothing listens there"), waits.wait("nothing listens there")
    nothing listens there; this client keeps trying until you stop it, for instance with Ctrl-C
    (None, None)
    >>> waits.over("connected again")
    connected again
    >>> waits.over("connected again")
    """

    def __init__(self, say: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._told: set[str] = set()
        self._since = self._due = self._pause = 0.0

    def wait(self, reason: str) -> None:
        """An attempt has failed."""
        now = self._now()
        if not self._told and not self._pause:
            self._since, self._pause, self._due = now, FIRST, now + FIRST
        if now >= self._due:
            self._told.clear()
            self._pause = min(2 * self._pause, LONGEST)
            self._due = now + self._pause
        if reason in self._told:
            return
        self._told.add(reason)
        minutes = int((now - self._since) // 60)
        trying = f"still trying, for {plural(minutes, 'minute')} now" if minutes else ENDLESS
        self._say(f"{reason}; {trying}")

    def over(self, sentence: str = "") -> None:
        """There is a connection; the sentence is said if its user knows that there was none."""
        if self._told and sentence:
            self._say(sentence)
        self._told.clear()
        self._pause = 0.0


ENDLESS = "this client keeps trying until you stop it, for instance with Ctrl-C"
