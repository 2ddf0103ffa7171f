"""Rows of CSV files: the columns that the model was trained on, found by their names, in its order."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

import numpy as np

ENDINGS = (".csv", ".csv.gz")
TAKES = (
    "It takes CSV files whose first line names the columns, in any order; columns that the model does not know, such "
    "as the label, are ignored."
)


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a vector per row, named by its file and line."""
    for path in paths:
        try:
            with _opened(path) as file:
                yield from _rows(path, file, facts["columns"])
        except (UnicodeDecodeError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: expected a table in UTF-8 that can be read to its end ({error})") from error


def _rows(path: str, file: IO[str], columns: list[str]) -> Iterator[tuple[str, Any]]:
    lines = enumerate(file, start=1)
    _, header = next(lines, (0, ""))
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    places = _places(path, names, columns)
    for number, line in lines:
        if row := next(csv.reader([line], delimiter=delimiter)):
            where = f"{path}:{number}"
            if len(row) != len(names):
                raise ValueError(f"{where}: expected {len(names)} fields, as in line 1, but it has {len(row)}")
            cells = [_number(row[places[name]], f"{where}, column {name!r}") for name in columns]
            yield where, np.array(cells, np.float32)


def _opened(path: str) -> IO[str]:
    if path.endswith(".gz"):
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return open(path, encoding="utf-8-sig", newline="")


def _places(path: str, names: list[str], columns: list[str]) -> dict[str, int]:
    """Find each column."""
    absent = [column for column in columns if column not in names]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        there = ", ".join(map(repr, names[:10])) + (" and others" if len(names) > 10 else "")
        raise ValueError(f"{path}: expected a column {shown} in the first line, but it has {there or 'nothing'}")
    return {column: names.index(column) for column in columns}


def _number(cell: str, where: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = float("nan")
    if "_" in cell or not abs(number) <= float(np.finfo(np.float32).max):
        raise ValueError(f"{where}: expected a finite number, but it is {cell!r:.100}")
    return number
