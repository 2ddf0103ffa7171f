"""How long to wait before trying again: longer each time, and never the same for all clients."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from `first` seconds up to `most`; each wait is drawn between half of that and all of it.

    >>> backoff = Backoff(1, 4)
    >>> waits = [backoff.next() for _ in range(4)]
    >>> [low / 2 <= wait <= low for wait, low in zip(waits, [1, 2, 4, 4])]
    [True, True, True, True]
    """

    def __init__(self, first: float = 0.1, most: float = 30.0) -> None:
        self._first, self._most, self._tries = first, most, 0

    def next(self) -> float:
        """The seconds to wait now."""
        longest: float = min(self._most, self._first * 2 ** min(self._tries, 30))
        self._tries += 1
        return longest * random.uniform(0.5, 1)

    def reset(self) -> None:
        """It worked: start from the beginning."""
        self._tries = 0
