"""How a simulation computes its clients: one by one, or many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

MOST_AT_ONCE = 64
"""More at once is not faster, and takes memory."""


@dataclass(frozen=True)
class Execution:
    """Up to `at_once` clients are computed in one pass, as long as `at_least` of them are left; 0 is one by one.

    `measured` tells that timing decided, so that the next run may decide differently; `room_for` is how many clients
    there is memory for.

    >>> str(Execution(10, why="as asked"))
    'up to 10 clients at once (as asked)'
    """

    at_once: int = 0
    at_least: int = 1
    why: str = ""
    measured: bool = False
    room_for: int = MOST_AT_ONCE

    def as_before(self, at_once: int, at_least: int) -> Execution:
        """The execution of a resumed run: as it was, unless a setting decides otherwise, as far as there is memory."""
        if not self.measured and not (self.at_once and at_once):
            return self
        return replace(self, at_once=min(at_once, self.room_for), at_least=at_least, why="as before")

    def __str__(self) -> str:
        how = f"up to {self.at_once} clients at once" if self.at_once else "client by client"
        return f"{how} ({self.why})" if self.why else how
