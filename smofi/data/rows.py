"""Read the rows of a .csv file, as strings: every row a line, and no line or file longer than allowed."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast

from smofi.data.outside import regular_size, wrong

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
MOST_BYTES = 2 << 30
"""In a file, unpacked."""

MOST_GROWTH, SMALL = 250, 1 << 28
"""How many times its size a packed table may become, if that is more than a few hundred megabytes. Tables of real
numbers become ten times as long; gzip itself could make them a thousand times as long."""

MOST_BLANK = 1_000_000
"""Blank lines in a file, beside one for each row."""

LONGEST_LINE = 1 << 22
NO_UTF8 = re.compile("[\udc80-\udcff]")
REPORT_EVERY = 1000


def rows(path: Path, report: Callable[[int], None]) -> Iterator[tuple[int, list[str], int]]:
    """Yield line numbers from 1, the fields of each and its characters, the header first.

    `report` is called with the bytes read so far.
    """
    done = blank = length = 0
    expected, packed = f"a table of at most {MOST_BYTES:,} bytes", path.suffix == ".gz"
    size = regular_size(path, expected)
    if size > MOST_BYTES:
        wrong(path, f"{expected}, but it has {size:,}")
    most = min(MOST_BYTES, max(SMALL, MOST_GROWTH * size)) if packed else MOST_BYTES
    try:
        with path.open("rb") as raw, _text(raw, packed) as text:
            lines = _lines(text, path)
            delimiter = ""
            for number, line in lines:
                done, length = number, length + len(line)
                if length > most:
                    unpacked = f"its {size:,} bytes unpack to more than {most:,}; if they should, unpack it first"
                    wrong(path, f"a table packed to no less than a {MOST_GROWTH}th, but {unpacked}: gunzip {path.name}")
                delimiter = delimiter or _delimiter(line, path)
                if row := next(csv.reader([line], delimiter=delimiter, strict=True)):
                    yield number, row, len(line)
                elif (blank := blank + 1) > MOST_BLANK + number // 2:
                    wrong(path, f"rows, but of the first {number:,} lines {blank:,} are blank")
                if number % REPORT_EVERY == 0:
                    report(raw.tell())
    except csv.Error as error:
        wrong(path, f"a row of fields in line {done} ({error})")
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"a file that can be read to its end, but reading fails after line {done} ({error})")
    if not done:
        wrong(path, "a line that names the columns, but it is empty")


def _text(raw: IO[bytes], packed: bool) -> TextIOWrapper:
    # one type for both: gzip's file has all that a text wrapper asks for
    content = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if packed else raw
    # bytes that are no UTF-8 come through as lone surrogates, so that the line they are in can be named
    return TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _lines(text: TextIOWrapper, path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    while line := text.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
            wrong(path, f"lines below {LONGEST_LINE:,} characters, but line {number} is longer")
        if not line.isascii() and (strange := NO_UTF8.search(line)):
            wrong(path, f"text in UTF-8, but line {number} has the byte 0x{ord(strange[0]) & 0xFF:02x}")
        yield number, line


def _delimiter(header: str, path: Path) -> str:
    """Find what stands between the names of the columns, most often and outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    delimiter = max(DELIMITERS, key=bare.count)
    if delimiter not in bare:
        *others, last = (f"a {word}" for word in DELIMITERS.values())
        between = f"{', '.join(others)} or {last}"
        wrong(path, f"names of columns in the first line, {between} between them, but it is {header!r:.100}")
    return delimiter
