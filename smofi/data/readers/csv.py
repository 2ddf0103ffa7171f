"""A user's own table: a .csv file, or a folder with train.csv and test.csv; .csv.gz is read too.

The first line names the columns. One is the label (`label`, `y`, `class` or `target`), one may say whose sample it is
(`client`, or another of `arrays.OWNERS`), one may be `split`, with the words train and test; every other one is a
feature, a number. The user may name the first two, whatever they are called.
"""

from __future__ import annotations

import hashlib
import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress
from smofi.data.formats.arrays import LEAST_CLASSES, OWNERS, from_arrays, printable, say_held_out
from smofi.data.formats.files import wrong
from smofi.data.formats.rows import rows
from smofi.errors import refuse
from smofi.memory import Room, as_text, room

# --------------------------------------------------------------------------------------------------------------------
# The columns of a .csv file, found by their names, and the words in them.


LABELS = ("label", "y", "class", "target")
SPLITS = ("train", "test")


def column_names(header: list[str], path: Path) -> list[str]:
    """The names in the first line, each once.

    >>> column_names(["age ", "label"], Path("a.csv"))
    ['age', 'label']
    """
    names = [name.strip() for name in header]
    if "" in names:
        wrong(path, f"a name for every column, but column {names.index('') + 1} has none")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        wrong(path, f"every column name once, but {twice!r:.100} occurs {Counter(names)[twice]} times")
    return names


def place_of(names: list[str], accepted: Sequence[str], path: Path, setting: str = "") -> int | None:
    """Where the column is that has one of these names, None if there is none; `setting` could say which one it is.

    >>> place_of(["age", "Label"], LABELS, Path("a.csv"))
    1
    """
    found = [position for position, name in enumerate(names) if name.lower() in accepted]
    if len(found) > 1:
        some = listed([names[position] for position in found])
        say = f"say which with {setting}" if setting else "leave the others out"
        wrong(path, f"one column of {', '.join(accepted)}, but there are {some}: {say}")
    return found[0] if found else None


def word(row: list[str], column: int, line: int, names: list[str], path: Path) -> str:
    """What stands in a column of a row, which may not be empty."""
    found = row[column].strip()
    if not found:
        wrong(path, f"a value in column {names[column]!r} of line {line}, but it is empty")
    return found


def train_or_test(found: str, line: int, path: Path) -> str:
    """The word in a column `split`."""
    if found.lower() not in SPLITS:
        wrong(path, f"train or test in column 'split' of line {line}, but it is {found!r:.100}")
    return found.lower()


def check_width(row: list[str], line: int, names: list[str], path: Path) -> None:
    """Refuse a row with more or fewer fields than there are columns."""
    if len(row) != len(names):
        wrong(path, f"{len(names)} fields in line {line}, as in the first line, but it has {len(row)}")


def listed(names: Sequence[str]) -> str:
    """Names to be shown in a message, the first ten of them.

    >>> listed(["age", "label"])
    "'age', 'label'"
    """
    shown = ", ".join(repr(name[:40]) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")


# --------------------------------------------------------------------------------------------------------------------
# What is kept of a table while it is read, and that it fits into memory.

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


# --------------------------------------------------------------------------------------------------------------------
# A user's own table: a .csv file, or a folder with train.csv and test.csv; .csv.gz is read too.

CELLS_AT_ONCE, TEXT_AT_ONCE = 100_000, 1 << 24
"""This many cells, or of this many characters, are kept as text before they are converted to numbers."""

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class NamedColumns:
    """The columns that the user has named; None where the usual names are to be looked for."""

    label: str | None = None
    client: str | None = None

    @property
    def key(self) -> str:
        """What tells a table read with these columns from the same one read with others; empty if none is named.

        >>> NamedColumns().key, NamedColumns(label="age").key
        ('', '-0d62d5d9')
        """
        named = repr((self.label, self.client)).encode()
        return "" if self == NamedColumns() else f"-{hashlib.sha256(named).hexdigest()[:8]}"


def find_csv(path: Path, named: NamedColumns = NamedColumns()) -> DataFiles:  # noqa: B008  # frozen
    """The table in a file, or in train and test of a folder; features standardised.

    Without a test, a fifth of every class is held out. Progress counts bytes.

    >>> find_csv(Path("nothing.csv"))
    Traceback (most recent call last):
    smofi.errors.InputError: nothing.csv is not accepted: expected a .csv file, or a folder with train.csv and test.csv
    """
    if path.is_dir():
        files = [_either(path, split) for split in SPLITS]
    elif path.is_file():
        files = [path]
    else:
        wrong(path, "a .csv file, or a folder with train.csv and test.csv")
    if named.label is not None and named.label == named.client:
        refuse("client_column", named.client, f"another column than label_column={named.label!r}")
    return DataFiles(files, partial(_read, path, files, named))


def _read(path: Path, files: list[Path], named: NamedColumns, progress: ReadProgress) -> Decoded:
    content = Content(room())
    sizes = [file.stat().st_size for file in files]
    for number, file in enumerate(files):
        before = sum(sizes[:number])
        split = SPLITS[number] if len(files) > 1 else None
        _add(file, content, split, named, _every_hundredth(progress, before, sum(sizes)))
    progress(sum(sizes), sum(sizes))
    return _decoded(content, path, files)


def _either(folder: Path, split: str) -> Path:
    for name in (f"{split}.csv", f"{split}.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    wrong(folder, f"train.csv and test.csv (or .csv.gz) in it, but there is no {split}.csv")


def _every_hundredth(progress: ReadProgress, before: int, total: int) -> Callable[[int], None]:
    last = before

    def report(now: int) -> None:
        nonlocal last
        if before + now - last >= total / 100:
            last = before + now
            progress(last, total)

    return report


def _add(path: Path, content: Content, split: str | None, named: NamedColumns, report: Callable[[int], None]) -> None:
    """Add the rows of a file to the content; `split` says what they are for if the rows do not."""
    source = rows(path, report)
    columns = _columns(next(source)[1], named, path)
    if content.columns is not None and content.columns != columns:
        wrong(path, f"the same columns as in the file before, {listed(content.columns.names)}")
    if split is not None and columns.split is not None:
        wrong(path, "no column 'split' where there are two files")
    content.columns = columns
    cells: list[str] = []
    lines: list[int] = []
    characters = 0
    for line, row, length in source:
        check_width(row, line, columns.names, path)
        cells.extend([row[column] for column in columns.features])
        lines.append(line)
        characters += length
        content.words_taken += content.labels.add(word(row, columns.label, line, columns.names, path))
        if columns.owner is not None:
            content.words_taken += content.owners.add(word(row, columns.owner, line, columns.names, path))
        if columns.split is not None:
            content.splits.add(train_or_test(word(row, columns.split, line, columns.names, path), line, path))
        elif split is not None:
            content.splits.add(split)
        if len(cells) >= CELLS_AT_ONCE or characters >= TEXT_AT_ONCE:
            content.check_room(path)
            content.features.append(_numbers(cells, lines, columns, path))
            cells, lines, characters = [], [], 0
    if lines:
        content.check_room(path)
        content.features.append(_numbers(cells, lines, columns, path))


def _columns(header: list[str], named: NamedColumns, path: Path) -> Columns:
    """What each column is, by its name."""
    names = column_names(header, path)
    label = _place("label_column", named.label, names, _not_named(LABELS, named), path)
    owner = _place("client_column", named.client, names, _not_named(OWNERS, named), path)
    split = place_of(names, _not_named(("split",), named), path)
    if label is None:
        usual = f"{', '.join(LABELS[:-1])} or {LABELS[-1]}"
        wrong(path, f"a column {usual}, or another one named by label_column, but the columns are {listed(names)}")
    features = [position for position in range(len(names)) if position not in (label, owner, split)]
    if not features:
        wrong(path, f"at least one column of numbers beside {listed(names)}")
    return Columns(names, label, owner, split, features)


def _place(setting: str, name: str | None, names: list[str], usual: Sequence[str], path: Path) -> int | None:
    """Where the column is that the user has named, or one with a usual name."""
    if name is None:
        return place_of(names, usual, path, setting)
    if name not in names:
        refuse(setting, name, f"a column of {path}, which are {listed(names)}")
    return names.index(name)


def _not_named(usual: Sequence[str], named: NamedColumns) -> list[str]:
    """The usual names, without what the user has said is another column."""
    given = [str(name).lower() for name in (named.label, named.client) if name is not None]
    return [name for name in usual if name not in given]


def _is_number(cell: str) -> bool:
    try:
        return "_" not in cell and abs(float(cell)) <= LARGEST
    except ValueError:
        return False


def _numbers(cells: list[str], lines: list[int], columns: Columns, path: Path) -> Array:
    """These cells, `[rows, features]`."""
    try:
        numbers = np.array([float(cell) for cell in cells])
        good = bool((np.abs(numbers) <= LARGEST).all()) and "_" not in "".join(cells)
    except ValueError:
        good = False
    if not good:
        position = next(position for position, cell in enumerate(cells) if not _is_number(cell))
        row, feature = divmod(position, len(columns.features))
        where = f"column {columns.names[columns.features[feature]]!r:.100} of line {lines[row]}"
        wrong(path, f"a finite number in {where}, but it is {cells[position]!r:.100}{_hint(cells[position])}")
    return numbers.astype(np.float32).reshape(len(lines), -1)


def _hint(cell: str) -> str:
    """What to do about a word; a cell that is empty, "nan" or "1,5" is none."""
    try:
        float(cell)
    except ValueError:
        if any(letter.isalpha() for letter in cell):
            names = f"{', '.join(OWNERS[:-1])} or {OWNERS[-1]}"
            return (
                f": if it is the owner of the sample, call the column {names}, or name it with client_column; "
                "convert other words to numbers first"
            )
    return ""


def _decoded(content: Content, path: Path, files: list[Path]) -> Decoded:
    """The whole content, divided into train and test."""
    if content.columns is None or not content.features:
        wrong(path, "rows below the names of the columns, but there are none")
    names = content.columns.names
    classes, labels = content.labels.sorted()
    owners, owner = content.owners.sorted()
    if len(classes) < LEAST_CLASSES.get():
        wrong(
            path,
            f"at least two classes in column {names[content.columns.label]!r}, but there is only {classes[0]!r:.100}",
        )
    inputs = np.concatenate(content.features)
    content.features.clear()
    arrays: dict[str, Any] = {"x": inputs, "y": labels, **({"client": owner} if owners else {})}
    if content.splits.numbers:
        arrays = _divided(arrays, content, path)
        absent = np.setdiff1d(arrays["y_test"], arrays["y"])
        if len(absent):
            wrong(
                path,
                f"only classes in the test set that are in the training set, but there is {classes[absent[0]]!r:.100}",
            )
    decoded = from_arrays({**arrays, "classes": classes}, str(path))
    test = say_held_out("rows", "a column split with the words train and test")
    if content.splits.numbers:
        test = "split column" if content.columns.split is not None else files[1].name
    about = {"test": test, "features": [printable(names[column]) for column in content.columns.features]}
    raw_input = {
        "kind": "table",
        "columns": [names[column] for column in content.columns.features],
        "label": names[content.columns.label],
        "missing": "refused",
        "type": "float32",
    }
    return replace(decoded, owners=tuple(map(printable, owners)), standardise=True, about=about, raw_input=raw_input)


def _divided(arrays: dict[str, Any], content: Content, path: Path) -> dict[str, Any]:
    splits, number = content.splits.sorted()
    if len(splits) < 2:
        wrong(path, f"rows to train on and rows to test on, but all are for {splits[0]}")
    testing = number == splits.index("test")
    return {
        key + end: value[rows] for key, value in arrays.items() for end, rows in (("", ~testing), ("_test", testing))
    }
