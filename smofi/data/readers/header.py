"""The columns of a .csv file, found by their names, and the words in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from smofi.data.formats.files import wrong

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
