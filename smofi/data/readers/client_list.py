"""Samples listed in a file: clients.csv in their folder says whose each is, and perhaps its class and what it is for.

file        the file, from this folder on, such as yes/1.wav
client      whose sample it is; the column may also have another name of `arrays.OWNERS`, such as speaker or site
label       its class; without this column, the name of the folder it lies in
split       train or test; without this column, as it lies in train/ or test/, or else a fifth is held out
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smofi.data.formats.arrays import OWNERS
from smofi.data.formats.files import Listing, check_room, regular_size, wrong
from smofi.data.formats.rows import rows
from smofi.data.readers.header import LABELS, check_width, column_names, listed, place_of, train_or_test, word
from smofi.data.readers.items import Found, Item, Medium, left_out, with_test
from smofi.data.readers.layout import medium_of, train_and_tests, walk

LIST = "clients.csv"
BYTE = 20
"""Memory for a byte of the list."""


@dataclass(frozen=True)
class Entry:
    """A line of the list; `label` and `split` are empty where there is no such column."""

    line: int
    client: str
    label: str
    split: str


def by_list(folder: Path, inside: Listing) -> Found:
    """The samples that the list in a folder names; all other files are left out."""
    path = folder / LIST
    entries = read_list(path)
    train_folder, test_folders = train_and_tests(folder, inside[0])
    files = {file.relative_to(folder).as_posix(): file for file in walk(folder, inside).files}
    for name, entry in entries.items():
        if name not in files:
            wrong(path, f"files that are in {folder}, but {name!r:.200} of line {entry.line} is not")
    medium = medium_of(folder, [files[name] for name in entries])
    train: list[Item] = []
    test: list[Item] = []
    for name, entry in entries.items():
        file = files[name]
        if not medium.has(file):
            wrong(path, f"{medium.many} only, but {name!r:.200} of line {entry.line} is something else")
        label = _label(file, entry, medium, path, (folder, train_folder, *test_folders))
        testing = entry.split == "test" if entry.split else any(place in file.parents for place in test_folders)
        (test if testing else train).append(Item(file, label, entry.client))
    if not train:
        wrong(path, "files to train on, but all are for the test")
    said = left_out([file for name, file in files.items() if name not in entries and file != path], "not in the list")
    about = {"left_out": "; ".join(said)} if said else {}
    if test:
        about = {"test": f"what {LIST} or a folder says is for the test", **about}
    return with_test(Found(medium, train, test, about, others=(path,)), folder, f"a column split to {LIST}")


def _label(file: Path, entry: Entry, medium: Medium, path: Path, outside: tuple[Path, ...]) -> str:
    """The class that the list says, or the name of the folder that the file lies in."""
    if not medium.labelled:
        if entry.label:
            wrong(path, "no column label: a text has no class, as the next character is what is learned")
        return ""
    if entry.label:
        return entry.label
    if file.parent in outside:
        wrong(path, f"a column label, as {file} lies in no folder that could be its class")
    return file.parent.name


def read_list(path: Path) -> dict[str, Entry]:
    """The lines of a list, by file."""
    size = regular_size(path, "a list of files")
    check_room(path, BYTE * size, f"it takes {BYTE} x {size:,} bytes")
    source = rows(path, lambda done: None)
    names = column_names(next(source)[1], path)
    file, client = place_of(names, ("file", "path"), path), place_of(names, OWNERS, path)
    label, split = place_of(names, LABELS, path), place_of(names, ("split",), path)
    if file is None or client is None:
        wrong(path, f"a column file and a column client, perhaps label and split, but the columns are {listed(names)}")
    entries: dict[str, Entry] = {}
    for line, row, _ in source:
        check_width(row, line, names, path)
        name = word(row, file, line, names, path).removeprefix("./")
        if name in entries:
            wrong(path, f"every file once, but {name!r:.200} is in line {entries[name].line} and in line {line}")
        entries[name] = Entry(
            line,
            word(row, client, line, names, path),
            "" if label is None else word(row, label, line, names, path),
            "" if split is None else train_or_test(word(row, split, line, names, path), line, path),
        )
    if not entries:
        wrong(path, "a line for each file below the names of the columns, but there is none")
    return entries
