"""Who comes and goes while a server waits, in few sentences: many at once are one."""

from __future__ import annotations

import time
from collections.abc import Callable

from smofi.net.plain import plain_text
from smofi.plural import all_of, plural

TOLD_EVERY = 1.0
"""Seconds between two sentences."""

MOST_NAMES = 5


class Arrivals:
    """Gathers names until it is time for a sentence.

    >>> said = []
    >>> arrivals = Arrivals(now=iter([0.0, 0.2, 0.4, 1.1]).__next__)
    >>> arrivals.want(True); arrivals.came("a"); arrivals.tell(said.append, "1 of 9 is here")
    >>> arrivals.came("b"); arrivals.tell(said.append, "2 of 9 are here")
    >>> arrivals.left("b", "it said goodbye"); arrivals.tell(said.append, "1 of 9 is here")
    >>> arrivals.came("c"); arrivals.tell(said.append, "2 of 9 are here")
    >>> said
    ['a joined: 1 of 9 is here', 'b and c joined, b left (it said goodbye): 2 of 9 are here']
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._told = now, -TOLD_EVERY
        self._wanted = False
        self._came: dict[str, None] = {}
        self._left: dict[str, str] = {}

    def came(self, name: str) -> None:
        """A client has joined."""
        if self._wanted:
            self._came[name] = None

    def left(self, name: str, reason: str) -> None:
        """A client is gone."""
        if self._wanted:
            self._left[name] = reason

    def want(self, wanted: bool) -> None:
        """From now on, or no more; what happened before is no news."""
        self._wanted = wanted
        self._came.clear()
        self._left.clear()

    def tell(self, say: Callable[[str], object], here: str, *, at_once: bool = False) -> None:
        """Say what is new, and who is here now; not so soon after the last sentence, unless `at_once`."""
        if not self._came and not self._left:
            return
        now = self._now()
        if now < self._told + TOLD_EVERY and not at_once:
            return
        parts = [f"{listed_names(list(self._came))} joined"] if self._came else []
        if self._left:
            reason = plain_text(next(iter(self._left.values()))) if len(self._left) == 1 else ""
            parts.append(f"{listed_names(list(self._left))} left" + (f" ({reason})" if reason else ""))
        self._told = now
        self.want(True)
        say(f"{', '.join(parts)}: {here}")


def listed_names(names: list[str]) -> str:
    """The names, or the first and how many more.

    >>> listed_names(["a"]), listed_names(["a", "b", "c"]), listed_names([f"site-{number}" for number in range(9)])
    ('a', 'a, b and c', 'site-0, site-1, site-2, site-3, site-4 and 4 others')
    """
    shown = [plain_text(name, most=100) for name in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {plural(more, 'other')}"
    return all_of(shown)
