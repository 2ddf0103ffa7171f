"""A curve that grows, in as many places as a terminal can tell apart."""

from __future__ import annotations

from statistics import median

from smofi.report.history import History

COLUMNS = 200
"""Two dots to a character, in the widest of the live display's curves."""


class Thinned:
    """A run's values for a picture with room for `rounds` rounds: as they are, None for those to come; in a long
    run, the lowest and the highest of each column. Every round is looked at once.

    >>> Thinned(History("fedavg", [0.5, None]), rounds=4).values()
    [0.5, None, None, None]
    """

    def __init__(self, history: History, rounds: int) -> None:
        self.history, self.rounds = history, rounds
        self.columns: list[list[float]] = [[] for _ in range(min(rounds, COLUMNS))]
        self.most = 1 if rounds <= COLUMNS else 2
        self.seen = 0

    def values(self) -> list[float | None]:
        """Of the rounds so far, and a place for each that is to come."""
        for number in range(self.seen, self.history.rounds):
            if (value := self.history.values[number]) is not None:
                column = self.columns[number * len(self.columns) // self.rounds]
                column.append(value)
                if len(column) > self.most:
                    column.remove(median(column))  # of three, it is neither the lowest nor the highest
        self.seen = self.history.rounds
        return [place for column in self.columns for place in [*column, None, None][: self.most]]
