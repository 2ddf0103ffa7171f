"""The columns of a Hugging Face `datasets.Dataset` as they are stored: pictures and sound as bytes of their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array
from smofi.data.formats.files import wrong

AT_ONCE = 1000


def check_columns(dataset: Any, names: Sequence[str], place: Path) -> None:
    """Refuse a data set without these columns, or without a row."""
    if missing := [name for name in names if name not in dataset.column_names]:
        wrong(place, f"the columns {', '.join(names)}, but it lacks {', '.join(missing)}")
    if not len(dataset):
        wrong(place, "at least one sample, but it has none")


def column(dataset: Any, name: str, begin: int = 0, end: int | None = None) -> Any:
    """Some rows of a column as an arrow array: nothing is decoded."""
    return dataset.select_columns([name]).with_format("arrow")[begin:end].column(name)


def contents(dataset: Any, name: str, place: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The files of a column, a thousand at a time, with the number of the first; paths in it are never followed."""
    for begin in range(0, len(dataset), AT_ONCE):
        some = column(dataset, name, begin, begin + AT_ONCE).to_pylist()
        found = [file["bytes"] for file in some if isinstance(file, dict) and isinstance(file.get("bytes"), bytes)]
        if len(found) < len(some):
            wrong(place, f"the bytes of a file in every row of column {name!r}, but some rows have none")
        yield begin, found


def class_names(dataset: Any, name: str, place: Path) -> list[str]:
    """The names of the classes in a column of labels."""
    names = getattr(dataset.features[name], "names", None)
    if not isinstance(names, list) or len(names) < 2:
        wrong(place, f"column {name!r} to be of type ClassLabel with two names or more")
    return [str(word) for word in names]


def class_numbers(dataset: Any, name: str, classes: int, place: Path) -> Array:
    """The labels in a column, int64."""
    given = column(dataset, name)
    labels: Array = given.fill_null(-1).to_numpy().astype(np.int64)
    if (strange := (labels < 0) | (labels >= classes)).any():
        row = int(strange.argmax())
        wrong(place / str(row), f"a label from 0 to {classes - 1}, but it is {given[row]}")
    return labels


def words(dataset: Any, name: str, place: Path) -> tuple[Array, list[str]]:
    """A column of words as numbers, and what they stand for; a word that is missing is -1."""
    coded = column(dataset, name).combine_chunks().dictionary_encode()
    found = coded.dictionary.to_pylist()
    if not all(isinstance(word, str) for word in found):
        wrong(place, f"words in column {name!r}")
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), found
