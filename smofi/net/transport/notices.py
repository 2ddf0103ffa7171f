"""What is known of connections at once, beside the events: who is away or back, and who was refused."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from smofi.net.plain import plain_text

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds before the same refusal is told of again: doubled each time."""

AT_ONCE, REFILL = 10, 6.0
"""How many refusals are told of in a row, whatever they are, and the seconds after which there may be one more."""

REMEMBERED = 256
"""How many different refusals are remembered."""


@dataclass(frozen=True)
class Refusal:
    """A connection that was refused, for the `times`-th time since it was last told of; its name, where it has one."""

    name: str | None
    address: str
    reason: str
    times: int = 1


class Observer(Protocol):
    """Is told in the thread of the event loop, as soon as it happens: it must return at once."""

    def away(self, name: str) -> None:
        """The connection of a client is lost; it may come back."""
        ...

    def back(self, name: str) -> None:
        """A client that was away has a connection again, and goes on where it was."""
        ...

    def refused(self, refusal: Refusal | None) -> None:
        """A connection was refused. None where there are too many to tell of each."""
        ...


class Unobserved:
    """For those who do not want to know."""

    def away(self, name: str) -> None: ...
    def back(self, name: str) -> None: ...
    def refused(self, refusal: Refusal | None) -> None: ...


@dataclass
class _Repeated:
    due: float
    pause: float = FIRST_PAUSE
    times: int = 0


class Refusals:
    """Which refusals are told of. Whoever tries again and again is told of now and then, with a number; and no matter
    how many try, and in how many ways, there are few of them a minute, and little is remembered.

    >>> refusals = Refusals(now=0.0)
    >>> [refusals.note("a", "10.0.0.7:1", "it is revoked", now=time) for time in (0.0, 1.0)][1] is None
    True
    >>> refusals.note("a", "10.0.0.7:2", "it is revoked", now=60.0).times
    2
    """

    def __init__(self, *, now: float) -> None:
        self._known: OrderedDict[tuple[str, str], _Repeated] = OrderedDict()
        self._left, self._then = float(AT_ONCE), now

    def note(self, name: str | None, address: str, reason: str, *, now: float) -> Refusal | None:
        """Take note of a refusal; what is to be told, if anything."""
        reason = plain_text(reason)
        key = name or address.rpartition(":")[0], reason
        known = self._known.pop(key, None)
        if known is None or now > known.due + LONGEST_PAUSE:
            known = _Repeated(now)
        self._known[key] = known
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        known.times += 1
        if now < known.due or not self._may_tell(now):
            return None
        told = Refusal(name, address, reason, known.times)
        known.due, known.pause, known.times = now + known.pause, min(2 * known.pause, LONGEST_PAUSE), 0
        return told

    def _may_tell(self, now: float) -> bool:
        self._left, self._then = min(AT_ONCE, self._left + (now - self._then) / REFILL), now
        if self._left < 1:
            return False
        self._left -= 1
        return True
