"""A user's own table: a .csv file, or a folder with train.csv and test.csv; .csv.gz is read too.

The first line names the columns. One is the label (`label`, `y`, `class` or `target`), one may say whose sample it is
(`client`, or another of `arrays.OWNERS`), one may be `split`, with the words train and test; every other one is a
feature, a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress
from smofi.data.formats.arrays import OWNERS, from_arrays
from smofi.data.formats.files import wrong
from smofi.data.formats.names import printable
from smofi.data.formats.rows import rows
from smofi.data.readers.table import Columns, Content
from smofi.memory import room

LABELS = ("label", "y", "class", "target")
SPLITS = ("train", "test")
CELLS_AT_ONCE, TEXT_AT_ONCE = 100_000, 1 << 24
"""This many cells, or of this many characters, are kept as text before they are converted to numbers."""

LARGEST = float(np.finfo(np.float32).max)


def find_csv(path: Path) -> DataFiles:
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
    return DataFiles(files, partial(_read, path, files))


def _read(path: Path, files: list[Path], progress: ReadProgress) -> Decoded:
    content = Content(room())
    sizes = [file.stat().st_size for file in files]
    for number, file in enumerate(files):
        before = sum(sizes[:number])
        split = SPLITS[number] if len(files) > 1 else None
        _add(file, content, split, _every_hundredth(progress, before, sum(sizes)))
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


def _add(path: Path, content: Content, split: str | None, report: Callable[[int], None]) -> None:
    """Add the rows of a file to the content; `split` says what they are for if the rows do not."""
    source = rows(path, report)
    columns = _columns(next(source)[1], path)
    if content.columns is not None and content.columns != columns:
        wrong(path, f"the same columns as in the file before, {_listed(content.columns.names)}")
    if split is not None and columns.split is not None:
        wrong(path, "no column 'split' where there are two files")
    content.columns = columns
    cells: list[str] = []
    lines: list[int] = []
    characters = 0
    for line, row, length in source:
        if len(row) != len(columns.names):
            wrong(path, f"{len(columns.names)} fields in line {line}, as in the first line, but it has {len(row)}")
        cells.extend([row[column] for column in columns.features])
        lines.append(line)
        characters += length
        content.words_taken += content.labels.add(_word(row, columns.label, line, columns, path))
        if columns.owner is not None:
            content.words_taken += content.owners.add(_word(row, columns.owner, line, columns, path))
        if columns.split is not None:
            content.splits.add(_train_or_test(_word(row, columns.split, line, columns, path), line, path))
        elif split is not None:
            content.splits.add(split)
        if len(cells) >= CELLS_AT_ONCE or characters >= TEXT_AT_ONCE:
            content.check_room(path)
            content.features.append(_numbers(cells, lines, columns, path))
            cells, lines, characters = [], [], 0
    if lines:
        content.check_room(path)
        content.features.append(_numbers(cells, lines, columns, path))


def _columns(header: list[str], path: Path) -> Columns:
    """What each column is, by its name."""
    names = [name.strip() for name in header]
    if "" in names:
        wrong(path, f"a name for every column, but column {names.index('') + 1} has none")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        wrong(path, f"every column name once, but {twice!r:.100} occurs {Counter(names)[twice]} times")
    places: dict[str, int | None] = {}
    for what, accepted in (("label", LABELS), ("owner", OWNERS), ("split", ("split",))):
        found = [position for position, name in enumerate(names) if name.lower() in accepted]
        if len(found) > 1:
            some = _listed([names[position] for position in found])
            wrong(path, f"one column of {', '.join(accepted)}, but there are {some}: leave the others out")
        places[what] = found[0] if found else None
    label = places["label"]
    if label is None:
        wrong(path, f"a column {', '.join(LABELS[:-1])} or {LABELS[-1]}, but the columns are {_listed(names)}")
    special = set(places.values())
    features = [position for position in range(len(names)) if position not in special]
    if not features:
        wrong(path, f"at least one column of numbers beside {_listed(names)}")
    return Columns(names, label, places["owner"], places["split"], features)


def _word(row: list[str], column: int, line: int, columns: Columns, path: Path) -> str:
    word = row[column].strip()
    if not word:
        wrong(path, f"a value in column {columns.names[column]!r} of line {line}, but it is empty")
    return word


def _train_or_test(word: str, line: int, path: Path) -> str:
    if word.lower() not in SPLITS:
        wrong(path, f"train or test in column 'split' of line {line}, but it is {word!r:.100}")
    return word.lower()


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
            return f": if it is the owner of the sample, call the column {names}; convert other words to numbers first"
    return ""


def _decoded(content: Content, path: Path, files: list[Path]) -> Decoded:
    """The whole content, divided into train and test."""
    if content.columns is None or not content.features:
        wrong(path, "rows below the names of the columns, but there are none")
    names = content.columns.names
    classes, labels = content.labels.sorted()
    owners, owner = content.owners.sorted()
    if len(classes) < 2:
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
    test = decoded.about["test"]
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


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
