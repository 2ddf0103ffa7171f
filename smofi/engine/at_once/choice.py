"""How many clients are computed at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

MOST_AT_ONCE = 64
"""More at once bring nothing, and take memory."""


@dataclass(frozen=True)
class Choice:
    """Up to `at_once` clients are computed at once, as long as at least `few` of them are left; 0 is client by client.

    `measured` choices may come out differently the next time; `most` is how many there is room for.

    >>> str(Choice(10, why="as asked"))
    'up to 10 clients at once (as asked)'
    """

    at_once: int = 0
    few: int = 1
    why: str = ""
    measured: bool = False
    most: int = MOST_AT_ONCE

    def as_before(self, at_once: int, few: int) -> Choice:
        """What a run that is resumed chose when it began, if it is a choice, and as far as there is room."""
        if not self.measured and not (self.at_once and at_once):
            return self
        return replace(self, at_once=min(at_once, self.most), few=few, why="as before")

    def __str__(self) -> str:
        how = f"up to {self.at_once} clients at once" if self.at_once else "client by client"
        return f"{how} ({self.why})" if self.why else how
