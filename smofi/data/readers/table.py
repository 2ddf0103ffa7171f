"""What is kept of a table while it is read, and that it fits into memory."""

from __future__ import annotations

import re
import sys
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array
from smofi.data.formats.files import wrong
from smofi.memory import Room, as_text

NUMBER, WORD, NEW_WORD = 13, 48, 200
"""Bytes of memory: for a number, 4 as it is read, 4 as it is divided into train and test, 4 as it is shuffled, 1 as it
is checked; for a word in a row, its number some times; for a word that is new, its place among all, beside itself."""


@dataclass(frozen=True)
class Columns:
    """Which column is which; `owner` and `split` are None where there is no such column."""

    names: list[str]
    label: int
    owner: int | None
    split: int | None
    features: list[int]


@dataclass
class Words:
    """A column of words, kept as numbers in the order in which they first occur."""

    numbers: dict[str, int] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("q"))

    def add(self, word: str) -> int:
        """Add a row, and say how many bytes it takes if the word is new."""
        known = len(self.numbers)
        self.rows.append(self.numbers.setdefault(word, known))
        return 0 if len(self.numbers) == known else NEW_WORD + sys.getsizeof(word)

    def sorted(self) -> tuple[list[str], Array]:
        """The words in order, numerically if all are whole numbers, and each row's place among them.

        >>> words = Words(); taken = words.add("10") + words.add("9"); words.sorted()
        (['9', '10'], array([1, 0]))
        """
        whole = all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", word) for word in self.numbers)
        words = sorted(self.numbers, key=int) if whole else sorted(self.numbers)
        place = np.empty(len(words), np.int64)
        place[[self.numbers[word] for word in words]] = np.arange(len(words))
        return words, place[np.frombuffer(self.rows, dtype=np.int64)]


@dataclass
class Content:
    """The rows read so far, of one file or of two; `left` is the room that there is for all of them."""

    left: Room
    words_taken: int = 0
    columns: Columns | None = None
    features: list[Array] = field(default_factory=list)
    labels: Words = field(default_factory=Words)
    owners: Words = field(default_factory=Words)
    splits: Words = field(default_factory=Words)

    def check_room(self, path: Path) -> None:
        """Refuse rows that take more memory than there is."""
        assert self.columns is not None
        rows, numbers = len(self.labels.rows), len(self.columns.features)
        words = rows * sum(len(column.rows) > 0 for column in (self.labels, self.owners, self.splits))
        taken = NUMBER * rows * numbers + WORD * words + self.words_taken
        if not self.left.holds(taken):
            wrong(
                path,
                f"what fits into the {self.left.words}, but its first {rows:,} rows take {NUMBER} x {rows:,} x "
                f"{numbers:,} bytes for numbers + {as_text(taken - NUMBER * rows * numbers)} for words = "
                f"{as_text(taken)}",
            )
