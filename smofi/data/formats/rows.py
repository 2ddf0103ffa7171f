"""The rows of a .csv file, as strings: every row a line, and no line or file longer than allowed."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast

from smofi.data.formats.files import wrong

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
MOST_CHARACTERS = 2 << 30
"""Characters in a file, unpacked."""

LONGEST_LINE = 1 << 22
NO_UTF8 = re.compile("[\udc80-\udcff]")
REPORT_EVERY = 1000


def rows(path: Path, report: Callable[[int], None]) -> Iterator[tuple[int, list[str]]]:
    """Line numbers from 1 and the fields of each, the header first; `report` is called with the bytes read so far."""
    done = 0
    try:
        with path.open("rb") as raw, _text(raw, path.suffix == ".gz") as text:
            lines = _lines(text, path)
            delimiter = ""
            for number, line in lines:
                done = number
                delimiter = delimiter or _delimiter(line, path)
                if row := next(csv.reader([line], delimiter=delimiter, strict=True)):
                    yield number, row
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
    number = length = 0
    while line := text.readline(LONGEST_LINE):
        number += 1
        length += len(line)
        if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
            wrong(path, f"lines below {LONGEST_LINE:,} characters, but line {number} is longer")
        if length > MOST_CHARACTERS:
            wrong(path, f"at most {MOST_CHARACTERS:,} characters, but it has more")
        if not line.isascii() and (strange := NO_UTF8.search(line)):
            wrong(path, f"text in UTF-8, but line {number} has the byte 0x{ord(strange[0]) & 0xFF:02x}")
        yield number, line


def _delimiter(header: str, path: Path) -> str:
    """What stands between the names of the columns, most often and outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    delimiter = max(DELIMITERS, key=bare.count)
    if delimiter not in bare:
        between = ", a ".join(DELIMITERS.values())
        wrong(path, f"names of columns in the first line, a {between} between them, but it is {header!r:.100}")
    return delimiter
