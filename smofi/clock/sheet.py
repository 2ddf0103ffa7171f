"""A CSV file with columns of known names, read for a setting that is refused if the file does not fit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from smofi.data.formats.rows import rows
from smofi.errors import refuse
from smofi.memory import as_text, room

CELL, CHARACTER = 100, 4
"""Bytes of memory that a cell takes, and a character at most."""


@dataclass(frozen=True)
class Sheet:
    """The rows of a file, each with the number of its line; `setting` is the name of the setting that names the
    file."""

    setting: str
    name: str
    columns: list[str]
    rows: list[tuple[int, list[str]]]

    @classmethod
    def read(cls, setting: str, name: str, accepted: Sequence[str]) -> Sheet:
        """The whole file, refused if a column has none of the accepted names."""
        path = Path(name).expanduser()
        if not os.path.isfile(path):
            refuse(setting, name, "a .csv file that exists")
        (_, header), *below = _kept(path, setting, name)
        sheet = cls(setting, name, [column.strip() for column in header], below)
        for column in sheet.columns:
            if column not in accepted or sheet.columns.count(column) > 1:
                sheet.wrong(f"the columns {', '.join(accepted)}, each once at most, but one is {column!r:.100}")
        if not below:
            sheet.wrong("rows below the names of the columns, but there are none")
        for line, row in below:
            if len(row) != len(header):
                sheet.wrong(f"{len(header)} fields in line {line}, as in the first line, but it has {len(row)}")
        return sheet

    def wrong(self, expected: str) -> NoReturn:
        """Refuse the file."""
        refuse(self.setting, self.name, expected)

    def words(self, column: str) -> list[str]:
        """A column of words."""
        return [row[self.columns.index(column)].strip() for _, row in self.rows]

    def numbers(self, column: str, *, above: float = -math.inf, low: float = -math.inf) -> list[float]:
        """A column of finite numbers, all of them over `above` and at least `low`."""
        numbers = [_number(word) for word in self.words(column)]
        limits = "".join(f" {sign} {limit:g}" for sign, limit in ((">", above), (">=", low)) if limit > -math.inf)
        for (line, _), word, number in zip(self.rows, self.words(column), numbers, strict=True):
            if not (above < number < math.inf and low <= number):
                kind = f"a finite number{limits}"
                self.wrong(f"{kind} in column {column!r} of line {line}, but it is {word!r:.100}")
        return numbers


def _kept(path: Path, setting: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows, as long as they fit into memory."""
    taken, left = 0, room()
    for line, row, length in rows(path, lambda done: None):
        taken += CELL * (1 + len(row)) + CHARACTER * length
        if not left.holds(taken):
            refuse(
                setting, name, f"what fits into the {left.words}, but its first {line:,} lines take {as_text(taken)}"
            )
        yield line, row


def _number(word: str) -> float:
    """A word as a number; NaN if it is not one.

    >>> _number("1.5"), _number("fast"), _number("1_000")
    (1.5, nan, nan)
    """
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan
