"""What a reader makes of a data set's files: compact arrays, and what it takes to understand them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
ReadProgress: TypeAlias = Callable[[int, int], None]
"""Called now and then with how many files or samples are read, and how many there are."""

KINDS = ("image", "vector", "text")


def silent(done: int, total: int) -> None:
    """Reports nothing."""


@dataclass(frozen=True, eq=False)
class Split:
    """The samples to train on, or those to test on.

    inputs    images   uint8 or float32 `[samples, height, width, channels]`
              vectors  float32 `[samples, features]`
              text     uint8 `[samples, length]`; or one long text, uint8 `[characters]`, of which `rows` are excerpts
    targets   int64 `[samples]`
    owner     who the sample comes from, a number below `len(Decoded.owners)`, int32 `[samples]`; None if not known
    rows      where in the long text each sample begins, int64 `[samples]`
    """

    inputs: Array
    targets: Array
    owner: Array | None = None
    rows: Array | None = None


@dataclass(frozen=True, eq=False)
class Decoded:
    """A data set, read. The first samples of a split should be a fair sample of it: readers shuffle what is in order.

    `standardise` asks for inputs of mean 0 and deviation 1 (per channel or feature, over the training set).
    `length` is that of an excerpt, where inputs are one long text. `folder` is that of its cache, if it came from one,
    and `checksums` are those of its arrays there, by name ("train.inputs").

    `raw_input` says what a sample is in the user's files and how it became an input, in JSON values: `kind` is table,
    picture, sound, text or array, and the rest are that kind's facts (docs/export.md lists them). A reader that has
    standardised its inputs itself adds `mean` and `deviation`, per channel or feature. None if it is not known.

    >>> import numpy as np
    >>> split = Split(np.zeros((2, 8, 8, 1), np.uint8), np.array([0, 1]))
    >>> Decoded("image", split, split, classes=("a", "b")).standardise
    True
    """

    kind: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    owners: tuple[str, ...] = ()
    standardise: bool = True
    length: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    raw_input: dict[str, Any] | None = None
    folder: Path | None = None
    checksums: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set, found but not read yet: `read` decodes them without looking for them again."""

    paths: list[Path]
    read: Callable[[ReadProgress], Decoded]
