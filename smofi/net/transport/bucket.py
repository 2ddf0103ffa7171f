"""A rate, as a token bucket."""

from __future__ import annotations


class Bucket:
    """Lets `rate` units a second through, and as many at once.

    >>> bucket = Bucket(10, now=0.0)
    >>> bucket.take(10, now=0.0), bucket.take(5, now=0.0), bucket.take(5, now=1.0)
    (0.0, 0.5, 0.0)
    """

    def __init__(self, rate: float, *, now: float) -> None:
        self._rate, self._level, self._then = rate, rate, now

    def take(self, units: float, *, now: float) -> float:
        """Take units, and the seconds to wait before taking more."""
        self._level = min(self._rate, self._level + (now - self._then) * self._rate) - units
        self._then = now
        return max(0.0, -self._level / self._rate)
