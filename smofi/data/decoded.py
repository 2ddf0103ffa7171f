"""Decoded data sets, as readers make them: compact arrays, and what it takes to understand them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
ReadProgress: TypeAlias = Callable[[int, int], None]
"""Called now and then with how many files or samples are read, and how many there are."""

SUMMED_AT_ONCE = 2**20


def silent(done: int, total: int) -> None:
    """Report nothing."""


def every_hundredth(progress: ReadProgress) -> ReadProgress:
    """Pass on what is read only when a hundredth more of it is.

    >>> told = []
    >>> report = every_hundredth(lambda done, total: told.append(done))
    >>> for done in range(1, 1001): report(done, 1000)
    >>> len(told), told[-1]
    (100, 1000)
    """
    reported = 0

    def report(done: int, total: int) -> None:
        nonlocal reported
        if 100 * done // max(1, total) > reported:
            reported = 100 * done // max(1, total)
            progress(done, total)

    return report


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

    def __getitem__(self, chosen: Any) -> Split:
        """Return some of the samples, unless they are excerpts."""
        return Split(self.inputs[chosen], self.targets[chosen], None if self.owner is None else self.owner[chosen])


def named_split(
    inputs: Array,
    labels: Sequence[str],
    classes: Sequence[str],
    clients: Sequence[str] = (),
    owners: Sequence[str] = (),
) -> Split:
    """Make a split of samples whose classes, and perhaps clients, are given by name."""
    number_of_class = {name: number for number, name in enumerate(classes)}
    number_of_owner = {name: number for number, name in enumerate(owners)}
    targets = np.array([number_of_class[label] for label in labels], np.int64)
    owner = np.array([number_of_owner[client] for client in clients], np.int32) if clients else None
    return Split(inputs, targets, owner)


@dataclass(frozen=True, eq=False)
class Decoded:
    """A data set, read. The first samples of a split should be a fair sample of it: readers shuffle what is in order.

    `kind` is image, vector or text. `standardise` asks for inputs of mean 0 and deviation 1 (per channel or feature,
    over the training set). `length` is that of an excerpt, where inputs are one long text. `file` is its cache, if it
    came from there, of this `checksum`.

    `raw_input` says what a sample is in the user's files and how it became an input, in JSON values: `kind` is table,
    picture, sound, text or array, and the rest are that kind's facts (docs/export.md lists them). A reader that has
    standardised its inputs itself adds `mean` and `deviation`, per channel or feature. None if it is not known.
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
    file: Path | None = None
    checksum: str = ""


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set, found but not read yet: `read` decodes them without looking for them again."""

    paths: list[Path]
    read: Callable[[ReadProgress], Decoded]


def with_moments(decoded: Decoded) -> Decoded:
    """Add mean and deviation of the training inputs, per channel or feature, to what is known about the data."""
    if not decoded.standardise or decoded.kind == "text":
        return decoded
    inputs = decoded.train.inputs
    columns = inputs.reshape(-1, inputs.shape[-1])
    if inputs.dtype == np.uint8:
        # exact, from how often each of the 256 values occurs
        pieces = np.array_split(columns, 1 + len(columns) // SUMMED_AT_ONCE)
        counted = [np.stack([np.bincount(column, minlength=256) for column in piece.T]) for piece in pieces]
        shares = sum(counted) / len(columns)
        mean = shares @ np.arange(256.0)
        deviation = np.sqrt(np.maximum(shares @ np.arange(256.0) ** 2 - mean**2, 0))
    else:
        mean, deviation = columns.mean(0, dtype=np.float64), columns.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a constant becomes 0
    return replace(decoded, about={**decoded.about, "mean": mean.tolist(), "deviation": deviation.tolist()})
