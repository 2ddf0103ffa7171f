"""Who takes part in a served run: every client's number, and what it has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smofi.runs import Participant, read_participants, write_participants


@dataclass
class Roster:
    """Clients by number: names, numbers of samples to train on, and of samples held out.

    Until the run begins, clients have no numbers; then they are numbered by their names, or as `order` lists them. Who
    comes later gets the next number. A client keeps its number for good. `counts` are how many samples of each class a
    client said it has when it last came, where that was asked.

    >>> roster = Roster()
    >>> [roster.add(name, samples=50, tests=5) for name in ("site-10", "site-9")]
    [False, False]
    >>> roster.close(); roster.names, roster.number_of("site-10")
    (['site-9', 'site-10'], 1)
    """

    order: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    waiting: dict[str, tuple[int, int]] = field(default_factory=dict)
    closed: bool = False
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add(self, name: str, samples: int, tests: int) -> bool:
        """A client has come, or come back; tells whether what is to be saved of a run that has begun is now another."""
        if name in self.names:
            number = self.names.index(name)
            before = self.sizes[number], self.tests[number]
            self.sizes[number], self.tests[number] = samples, tests
            return before != (samples, tests)
        if self.closed:
            self._append(name, samples, tests)
        else:
            self.waiting[name] = samples, tests
        return self.closed

    def remove(self, name: str) -> None:
        """A client has gone before the run began."""
        self.waiting.pop(name, None)

    def close(self) -> None:
        """The run begins: those who are there are numbered."""
        if not self.closed:
            self.closed = True
            for name in sorted(self.waiting, key=self._place):
                self._append(name, *self.waiting[name])
            self.waiting.clear()

    def number_of(self, name: str) -> int | None:
        """A client's number, None if it has none yet."""
        return self.names.index(name) if name in self.names else None

    def class_counts(self, client: int) -> npt.NDArray[np.int64]:
        """How many samples of each class the client with this number has."""
        return np.array(self.counts[self.names[client]], dtype=np.int64)

    def _append(self, name: str, samples: int, tests: int) -> None:
        self.names.append(name)
        self.sizes.append(samples)
        self.tests.append(tests)

    def _place(self, name: str) -> tuple[int, list[Any]]:
        """As listed, or by name: numbers in it count as numbers, so that site-9 comes before site-10."""
        listed = self.order.index(name) if name in self.order else len(self.order)
        return listed, [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in re.findall(r"\d+|\D+", name)]

    @property
    def participants(self) -> list[Participant]:
        """The clients that have a number."""
        return [Participant(*one) for one in zip(self.names, self.sizes, self.tests, strict=True)]

    def save(self, folder: Path) -> None:
        """Write it, so that clients have the same numbers after a restart."""
        write_participants(folder, self.participants)

    @classmethod
    def read(cls, folder: Path) -> Roster:
        """As it was saved; of a run that had no clients yet, it is open."""
        found = read_participants(folder)
        roster = cls(closed=bool(found))
        for one in found:
            roster._append(one.name, one.samples, one.tests)
        return roster
