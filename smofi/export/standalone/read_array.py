"""Numpy arrays, and rows of numbers in text files: vectors or images of the shape that the model was trained on."""

from __future__ import annotations

import csv
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

ENDINGS = (".npz", ".npy", ".csv")
TAKES = (
    "It takes numpy files with an array of samples (in an .npz file, the one called x), or text files with a sample "
    "per line, numbers separated by commas."
)


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a vector, or an image [height, width, channels], per sample; named by its file and number, from 0."""
    for path in paths:
        array = _table(path) if path.lower().endswith(".csv") else _numpy(path)
        for number, sample in enumerate(_shaped(array, facts, path)):
            yield f"{path}[{number}]", sample


def _numpy(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                return loaded
            if "x" not in loaded and len(loaded.files) != 1:
                raise ValueError(f"an array called x, but there are {', '.join(loaded.files) or 'none'}")
            return loaded["x" if "x" in loaded else loaded.files[0]]
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a numpy file with an array of numbers ({error})") from error


def _table(path: str) -> Any:
    """Rows of numbers; a first line of names is left out."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: expected rows of numbers, as text ({error})") from error
    numbers: list[list[float]] = []
    for number, row in rows:
        try:
            numbers.append([float(cell) for cell in row])
        except ValueError as error:
            if numbers or number > 1:
                raise ValueError(f"{path}:{number}: expected numbers separated by commas ({error})") from error
        if numbers and len(row) != len(numbers[0]):
            raise ValueError(f"{path}:{number}: expected {len(numbers[0])} numbers, but there are {len(row)}")
    return np.array(numbers, np.float64)


def _shaped(array: Any, facts: dict[str, Any], path: str) -> Any:
    """Return all samples, if they are what the model was trained on."""
    shape = tuple(facts["shape"])
    if array.dtype.kind not in "biuf" or not array.ndim or not len(array):
        raise ValueError(f"{path}: expected an array of numbers, but it has type {array.dtype}, shape {array.shape}")
    given = array.shape[1:]
    if given == (math.prod(shape),):  # flat, row by row
        array = array.reshape(-1, *shape)
    elif array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.shape[1:] != shape:
        raise ValueError(f"{path}: expected samples of shape {list(shape)}, but they have {list(given)}")
    low, high = (0, 255) if facts["type"] == "uint8" else facts.get("range", (-math.inf, math.inf))
    if not np.isfinite(array).all() or array.min() < low or array.max() > high:
        expected = "finite numbers" if math.isinf(high) else f"numbers from {low} to {high}"
        raise ValueError(f"{path}: expected {expected}, but there are others")
    with np.errstate(over="ignore"):
        converted = array.astype(facts["type"])
    if not np.isfinite(converted).all():
        raise ValueError(f"{path}: expected numbers that fit into {facts['type']}, but some are larger")
    if facts["type"] == "uint8" and (converted != array).any():
        raise ValueError(f"{path}: expected whole numbers from 0 to 255, but there are others")
    return converted
