"""How many clients are computed at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """Up to `at_once` clients are computed at once, as long as at least `few` of them are left; 0 is client by client.

    >>> str(Choice(10, why="as asked"))
    'up to 10 clients at once (as asked)'
    """

    at_once: int = 0
    few: int = 1
    why: str = ""
    measured: bool = False

    def __str__(self) -> str:
        how = f"up to {self.at_once} clients at once" if self.at_once else "client by client"
        return f"{how} ({self.why})" if self.why else how
