"""Data sets, decoded once: plain arrays in a folder of the user's cache, memory-mapped when they are used.

    SMOFI_DATA (or ~/.cache/smofi)/decoded/<name>-<folder>-<files>/train.inputs.npy, ..., about.json
                                                                  train.inputs.<size>-<rows>.npy, if resized
                                                                  test.some.inputs.<size>-<rows>.npy, to be hashed

A cache belongs to the files it was made from: when one of them changes, it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, Decoded, Split

AT_ONCE = 2**20
UNFINISHED, A_DAY = ".unfinished-", 24 * 3600
FORMAT = 1
"""Part of every cache's name: increase it when a reader decodes the same files differently."""


def data_home() -> Path:
    """Where data sets are looked for by name, and where their caches lie.

    >>> data_home().is_absolute()
    True
    """
    home = os.environ.get("SMOFI_DATA")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(home) if home else Path(caches) / "smofi").expanduser().absolute()


def fingerprint(files: Iterable[Path]) -> str:
    """Names, sizes and times of these files, as a short hash."""
    lines = []
    for path in sorted(map(str, files)):
        status = os.stat(path)
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return _short_hash("\n".join(lines))


def cached(name: str, origin: str, version: str, decode: Callable[[], Decoded]) -> Decoded:
    """What `decode` gives, from the cache if it has been decoded before.

    `origin` says where the data comes from, `version` what state that is in: another version replaces the one before.
    """
    if (found := find(name, origin, version)) is not None:
        return found
    decoded = with_moments(decode())
    with suppress(OSError):  # a full disk, or no permission: then it is decoded again next time
        return store(name, origin, version, decoded)
    return decoded


def store(name: str, origin: str, version: str, decoded: Decoded) -> Decoded:
    """Put it into the cache, in place of other versions and of what a killed process left behind."""
    place = _place(name, origin, version)
    write(place, decoded)
    outdated = [old for old in place.parent.glob(place.name.rpartition("-")[0] + "-*") if old != place]
    for old in outdated + _abandoned(place.parent):
        shutil.rmtree(old, ignore_errors=True)
    return read(place) or decoded


def find(name: str, origin: str, version: str) -> Decoded | None:
    """What has been decoded before, None if nothing has."""
    return read(_place(name, origin, version))


def exists(name: str, origin: str, version: str) -> bool:
    """Whether it has been decoded before."""
    return (_place(name, origin, version) / "about.json").exists()


def with_moments(decoded: Decoded) -> Decoded:
    """Mean and deviation of the training inputs, per channel or feature, added to what is known about the data."""
    if not decoded.standardise or decoded.kind == "text":
        return decoded
    inputs = decoded.train.inputs
    columns = inputs.reshape(-1, inputs.shape[-1])
    if inputs.dtype == np.uint8:
        # exact, from how often each of the 256 values occurs
        counts = sum(_counts(some) for some in np.array_split(columns, 1 + len(columns) // AT_ONCE)) / len(columns)
        mean = counts @ np.arange(256.0)
        deviation = np.sqrt(np.maximum(counts @ np.arange(256.0) ** 2 - mean**2, 0))
    else:
        mean, deviation = columns.mean(0, dtype=np.float64), columns.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a constant becomes 0
    return replace(decoded, about={**decoded.about, "mean": mean.tolist(), "deviation": deviation.tolist()})


def _counts(columns: Array) -> Array:
    return np.stack([np.bincount(column, minlength=256) for column in columns.T])


def read(place: Path) -> Decoded | None:
    """The cache in this folder, None if there is none or it is damaged."""
    try:
        about = json.loads((place / "about.json").read_text())
        splits = {name: _read_split(place, name, shapes) for name, shapes in about.pop("parts").items()}
        names = {name: tuple(about[name]) for name in ("classes", "owners")}
        return Decoded(**{**about, **splits, **names, "folder": place})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(place: Path, decoded: Decoded) -> None:
    """Make the cache, all of it or nothing."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _unfinished(place.parent)
    unfinished.mkdir()
    try:
        shapes: dict[str, dict[str, Any]] = {"train": {}, "test": {}}
        for name, split in (("train", decoded.train), ("test", decoded.test)):
            for field, array in _arrays(split).items():
                np.save(unfinished / f"{name}.{field}.npy", np.ascontiguousarray(array), allow_pickle=False)
                shapes[name][field] = list(array.shape)
        about = {key: value for key, value in _plain(decoded).items() if key not in ("train", "test", "folder")}
        (unfinished / "about.json").write_text(json.dumps({**about, "parts": shapes}))
        shutil.rmtree(place, ignore_errors=True)
        os.rename(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _arrays(split: Split) -> dict[str, Array]:
    return {field: array for field in split.__dataclass_fields__ if (array := getattr(split, field)) is not None}


def _read_split(place: Path, name: str, shapes: dict[str, list[int]]) -> Split:
    arrays = {}
    for field, shape in shapes.items():
        # copy-on-write: torch wants arrays that could be written, and nothing ever is
        arrays[field] = np.load(place / f"{name}.{field}.npy", mmap_mode="c", allow_pickle=False)
        if list(arrays[field].shape) != shape:
            raise ValueError(f"{name}.{field} has shape {arrays[field].shape}, expected {shape}")
    return Split(**arrays)


def _plain(decoded: Decoded) -> dict[str, Any]:
    bare = replace(decoded, train=Split(np.empty(0), np.empty(0)), test=Split(np.empty(0), np.empty(0)))
    return asdict(bare)


def keep_resized(
    folder: Path, split: str, side: int, rows: Array, resize: Callable[[], Array], some: Array | None = None
) -> Array:
    """What `resize` makes of these rows of a split, from the data set's folder if it was made before.

    Of each size, one selection of rows is kept: another one replaces it. They go when the data set's folder goes.
    `some` of the rows are taken from all of them where those are kept, and otherwise kept beside them.
    """
    stem = f"{split}.inputs.{side}-"
    path = folder / f"{stem}{hashlib.sha256(rows.astype('<i8').tobytes()).hexdigest()[:12]}.npy"
    if (found := _mapped_squares(path, len(rows), side)) is not None:
        return found if some is None else found[some]
    if some is not None:
        return keep_resized(folder, f"{split}.some", side, rows[some], resize)
    images, unfinished = resize(), _unfinished(folder)
    try:
        with suppress(OSError), unfinished.open("wb") as file:  # as in `cached`: then it is resized again next time
            np.save(file, images, allow_pickle=False)
            for old in (*folder.glob(f"{stem}*"), *_abandoned(folder)):
                old.unlink(missing_ok=True)
            os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    mapped = _mapped_squares(path, len(rows), side)
    return images if mapped is None else mapped


def _mapped_squares(path: Path, images: int, side: int) -> Array | None:
    """The images in a file, None if there are others or none, or they are damaged."""
    with suppress(OSError, ValueError, EOFError):
        found: Array = np.load(path, mmap_mode="c", allow_pickle=False)
        if found.shape[:3] == (images, side, side):
            return found
    return None


def _unfinished(folder: Path) -> Path:
    return folder / f"{UNFINISHED}{os.getpid()}-{time.monotonic_ns()}"


def _abandoned(folder: Path) -> list[Path]:
    """What processes left behind that were killed while they wrote."""
    return [old for old in folder.glob(f"{UNFINISHED}*") if time.time() - old.stat().st_mtime > A_DAY]


def _place(name: str, origin: str, version: str) -> Path:
    return data_home() / "decoded" / f"{name}-{_short_hash(origin)}-{_short_hash(f'{FORMAT} {version}')}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
