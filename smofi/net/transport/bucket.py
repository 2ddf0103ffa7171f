"""A rate, as a token bucket."""

from __future__ import annotations


class Bucket:
    """Lets `rate` units a second through, and `most` at once: by default, as many as in a second.

    >>> bucket = Bucket(10, now=0.0)
    >>> bucket.take(10, now=0.0), bucket.take(5, now=0.0), bucket.take(5, now=1.0)
    (0.0, 0.5, 0.0)
    >>> bucket = Bucket(1, most=2, now=0.0)
    >>> [bucket.try_to_take(1, now=time) for time in (0.0, 0.0, 0.5, 1.5)]
    [True, True, False, True]
    """

    def __init__(self, rate: float, most: float | None = None, *, now: float) -> None:
        self._rate, self._most, self._then = rate, rate if most is None else most, now
        self._level = self._most

    def take(self, units: float, *, now: float) -> float:
        """Take units, and the seconds to wait before taking more."""
        self._fill(now)
        self._level -= units
        return max(0.0, -self._level / self._rate)

    def try_to_take(self, units: float, *, now: float) -> bool:
        """Take units if that many are there; False, and nothing is taken, if not."""
        self._fill(now)
        if self._level < units:
            return False
        self._level -= units
        return True

    def _fill(self, now: float) -> None:
        self._level = min(self._most, self._level + (now - self._then) * self._rate)
        self._then = now
