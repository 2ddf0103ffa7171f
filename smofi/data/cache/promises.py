"""What every reader promises of a data set, checked where it comes from files that anyone could have written."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from smofi.data.decoded import KINDS, Array, Decoded, Split

INPUTS = {"image": (4, ("uint8", "float32")), "vector": (2, ("float32",)), "text": (2, ("uint8",))}
"""By the kind of data: how many axes inputs have, and of which types they are. One long text has a single axis."""

SAID = ("features", "test", "left_out")
AT_ONCE = 2**20
"""How many numbers are looked at in one go, so that it takes little memory."""


def check_promises(decoded: Decoded, look_at: Collection[str] = ("train", "test")) -> None:
    """Raise a ValueError, with a clause that tells what is wrong, unless a reader could have made this.

    In the splits that `look_at` names, every input is looked at; in the others only their type and shape.

    >>> split = Split(np.zeros((2, 8, 8, 1), np.uint8), np.array([0, 9]))
    >>> check_promises(Decoded("image", split, split, classes=("a", "b"), standardise=False))
    Traceback (most recent call last):
    ValueError: train.targets has 9, but there are 2 classes
    """
    _check_description(decoded)
    for name, split in (("train", decoded.train), ("test", decoded.test)):
        _check_inputs(name, split, decoded)
        _check_numbers(name, split, decoded)
        if name in look_at and decoded.kind == "text":
            _require(int(split.inputs.max()) < len(decoded.classes), f"{name}.inputs has characters that do not exist")
        elif name in look_at:
            check_finite(f"{name}.inputs", split.inputs)
    one, other = decoded.train, decoded.test
    alike = one.inputs.dtype == other.inputs.dtype and one.inputs.shape[1:] == other.inputs.shape[1:]
    _require(alike and (one.rows is None) == (other.rows is None), "test.inputs is unlike train.inputs")
    if decoded.standardise and decoded.kind != "text":
        _check_moments(decoded, decoded.train.inputs.shape[-1])


def check_finite(name: str, numbers: Array) -> None:
    """Raise a ValueError if there is any number that is not finite."""
    flat = numbers.reshape(-1)
    for begin in range(0, len(flat) if numbers.dtype.kind == "f" else 0, AT_ONCE):
        _require(bool(np.isfinite(flat[begin : begin + AT_ONCE]).all()), f"{name} has numbers that are not finite")


def _check_description(decoded: Decoded) -> None:
    _require(decoded.kind in KINDS, f"there is no kind {decoded.kind!r:.40}")
    _require(len(decoded.classes) > 0, "there are no classes")
    _require(all(isinstance(name, str) for name in (*decoded.classes, *decoded.owners)), "names are not text")
    plain = isinstance(decoded.standardise, bool) and type(decoded.length) is int and isinstance(decoded.about, dict)
    _require(plain, "what is known about the data is of another type")
    _require(decoded.raw_input is None or isinstance(decoded.raw_input, dict), "raw_input is of another type")
    said = [decoded.about[key] for key in SAID if key in decoded.about]
    words = [word for one in said for word in (one if isinstance(one, list) else [one])]
    _require(all(isinstance(word, str) for word in words), "what is said about the data is not text")


def _check_inputs(name: str, split: Split, decoded: Decoded) -> None:
    axes, types = INPUTS[decoded.kind]
    inputs, long = split.inputs, split.rows is not None
    _require(not long or (decoded.kind == "text" and decoded.length > 0), f"{name}.rows belong to no text")
    fits = inputs.ndim == (1 if long else axes) and inputs.dtype.name in types and 0 not in inputs.shape
    _require(fits, f"{name}.inputs has shape {list(inputs.shape)} and type {inputs.dtype}")
    as_many = long or len(inputs) == len(split.targets)
    _require(as_many, f"{name} has {len(inputs):,} inputs and {len(split.targets):,} targets")


def _check_numbers(name: str, split: Split, decoded: Decoded) -> None:
    """Targets, owners and rows: of their types, one per sample, and each is the number of something."""
    samples = len(split.targets)
    _check_below(f"{name}.targets", split.targets, "int64", samples, len(decoded.classes), "classes")
    if split.owner is not None:
        _check_below(f"{name}.owner", split.owner, "int32", samples, len(decoded.owners), "owners")
    if split.rows is not None:
        begins = max(0, len(split.inputs) - decoded.length)
        _check_below(f"{name}.rows", split.rows, "int64", samples, begins, "places where an excerpt can begin")


def _check_below(name: str, numbers: Array, kind: str, samples: int, limit: int, what: str) -> None:
    fits = numbers.dtype.name == kind and numbers.shape == (samples,) and samples > 0
    _require(fits, f"{name} has shape {list(numbers.shape)} and type {numbers.dtype}")
    for number in (int(numbers.min()), int(numbers.max())):
        _require(0 <= number < limit, f"{name} has {number}, but there are {limit:,} {what}")


def _check_moments(decoded: Decoded, columns: int) -> None:
    """Mean and deviation: a finite number each per channel or feature."""
    for name in ("mean", "deviation"):
        moment = decoded.about.get(name)
        numbers = isinstance(moment, list) and len(moment) == columns and all(type(one) is float for one in moment)
        _require(numbers and bool(np.isfinite(moment or 0).all()), f"{name} is not {columns} finite numbers")
    _require(min(decoded.about["deviation"]) > 0, "deviation is not positive")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
