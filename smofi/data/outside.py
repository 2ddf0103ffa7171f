"""Read files from outside with care: no more memory than the file can fill, and a sentence for what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from smofi.errors import InputError
from smofi.memory import LITTLE, as_text, room

MOST_INFLATED = 1100
"""What a byte of gzip or zip can become at most, rounded up from 1,032."""

PIECE = 2**20
"""Bytes that are unpacked at once."""

JSON_BYTES, JSON_VALUE = 6, 64
"""Memory that reading json takes: for each byte of it, as text, as values and as what is made of them; and a value."""

LONGEST_NAME = 200

FileLayout: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Sub-folders in which files may lie, and the files: for each the names it goes by."""

Listing: TypeAlias = tuple[list[Path], list[Path]]
"""The folders in a folder, and the files."""


def wrong(path: Path, expected: str) -> NoReturn:
    """Refuse a file, naming it and what was expected."""
    raise InputError(f"{path} is not accepted: expected {expected}")


def printable(name: str) -> str:
    """Return a name from outside on one line, at most 200 characters, with ? for what cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])


def check_room(path: Path, needed: int, arithmetic: str) -> None:
    """Refuse what takes more memory than there is; `arithmetic` says how many bytes are needed."""
    if needed > LITTLE and not (found := room()).holds(needed):
        wrong(path, f"what fits into the {found.words}, but {arithmetic} = {as_text(needed)}")


def regular_size(path: Path, expected: str) -> int:
    """Return the size of a file; refuse a pipe, a socket or a device, as reading one could last for ever."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        wrong(path, f"{expected} ({getattr(error, 'strerror', None) or error})")
    if not stat.S_ISREG(status.st_mode):
        wrong(path, f"{expected}, but it is not a regular file")
    return status.st_size


def read_bytes(path: Path, most: int, expected: str) -> bytes:
    """Read a file of at most `most` bytes, unpacked if its name ends in .gz; `expected` is what an error asks for."""
    size = regular_size(path, expected)
    try:
        if path.suffix == ".gz":
            return _unpacked(path, most, expected)
        if size > most:
            wrong(path, f"{expected}, at most {most:,} bytes, but it has {size:,}")
        check_room(path, size, f"it has {size:,} bytes")
        return path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"{expected} ({getattr(error, 'strerror', None) or error})")


def _unpacked(path: Path, most: int, expected: str) -> bytes:
    """Unpack a gzip file, which does not say how long that is: refuse it as soon as it is too long."""
    pieces: list[bytes] = []
    size, left = 0, room()
    with gzip.open(path) as file:
        while piece := file.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                wrong(path, f"{expected}, at most {most:,} bytes, but it unpacks to more")
            if not left.holds(2 * size):  # in pieces, and joined
                wrong(path, f"what fits into the {left.words}, but it unpacks to more than 2 x {size:,} bytes")
    return b"".join(pieces)


def read_lines(path: Path, most: int, expected: str) -> list[str]:
    """Read the lines of a text in UTF-8, without spaces at their ends, but for those that are empty."""
    try:
        text = read_bytes(path, most, expected).decode()
    except UnicodeDecodeError:
        wrong(path, f"{expected}, in UTF-8")
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_json(path: Path, most: int, expected: str) -> Any:
    """Read a json file of at most `most` bytes: mostly text, for a value of two bytes may take 60 of memory."""
    content = read_bytes(path, most, expected)
    values = sum(content.count(mark) for mark in (b"[", b"{", b","))
    if values > 1_000_000 + len(content) // 10:
        wrong(path, f"{expected}, but it has {values:,} values in {len(content):,} bytes")
    factor = JSON_BYTES if content.isascii() else JSON_BYTES + 3  # a letter that is not ASCII makes all of 4 bytes
    needed = factor * len(content) + JSON_VALUE * values
    check_room(path, needed, f"it takes {factor} x {len(content):,} bytes + {JSON_VALUE} x {values:,} values")
    try:
        return json.loads(content)
    except RecursionError:
        wrong(path, f"{expected}, but it is nested too deeply")
    except ValueError as error:
        wrong(path, f"{expected} ({error})")


def listing(folder: Path) -> Listing:
    """List the folders and the files in a folder, each by name, without what is hidden."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not _is_text(entry.name):
                    wrong(folder, f"names of files in UTF-8, but there is {entry.name!a}")
                if not entry.name.startswith((".", "__MACOSX")):
                    (folders if entry.is_dir() else files).append(folder / entry.name)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        wrong(folder, f"a folder that can be read ({getattr(error, 'strerror', None) or error})")
    return folders, files


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def find_files(folder: Path, layouts: Sequence[FileLayout]) -> list[Path]:
    """Find the files of the first layout that is complete, in the folder or in one of the layout's sub-folders."""
    if not os.path.isdir(folder):
        wrong(folder, "a folder")
    best: tuple[int, Path, list[str]] | None = None
    for places, wanted in layouts:
        for place in (folder, *(folder / name for name in places)):
            present = [next((name for name in names if os.path.isfile(place / name)), None) for names in wanted]
            found = [place / name for name in present if name is not None]
            if len(found) == len(wanted):
                return found
            missing = [names[0] for names, name in zip(wanted, present, strict=True) if name is None]
            if found and (best is None or len(found) > best[0]):
                best = len(found), place, missing
    if best is not None:
        wrong(best[1], f"{', '.join(best[2])} as well")
    choices = [f"{', '.join(names[0] for names in wanted)} (or these in {places[0]})" for places, wanted in layouts]
    wrong(folder, f"the files {'; or '.join(choices)}, but it has none of them")
