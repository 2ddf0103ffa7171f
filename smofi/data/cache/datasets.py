"""Data sets, decoded once: plain arrays in a folder of the user's cache, memory-mapped when they are used.

SMOFI_DATA (or ~/.cache/smofi)/decoded/<name>-<folder>-<files>/train.inputs.npy, ..., about.json
                                                              train.inputs.<size>-<rows>/, if resized
                                                              test.some.inputs.<size>-<rows>/, to be hashed

A cache belongs to the files it was made from: when one of them changes, or it is damaged itself, it is made anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.cache.arrays import ABOUT, Arrays, Damaged, read_arrays, write_arrays
from smofi.data.cache.home import place_of
from smofi.data.cache.moments import with_moments
from smofi.data.cache.promises import check_promises
from smofi.data.cache.unfinished import clear_abandoned, discard
from smofi.data.decoded import Array, Decoded, Split
from smofi.errors import CacheWarning

SPLITS = ("train", "test")
NOT_KEPT = (*SPLITS, "folder", "checksums")


def cached(name: str, origin: str, version: str, decode: Callable[[], Decoded]) -> Decoded:
    """What `decode` gives, from the cache if it has been decoded before.

    `origin` says where the data comes from, `version` what state that is in: another version replaces the one before.
    """
    try:
        found = find(name, origin, version)
        if found is not None and found.raw_input is not None:  # it is None in caches from before it was kept
            return found
    except Damaged as damage:
        place = place_of(name, origin, version)
        warnings.warn(f"{place} is damaged ({damage}): {origin} is decoded anew", CacheWarning, stacklevel=2)
    decoded = with_moments(decode())
    decoded = replace(decoded, raw_input=decoded.raw_input or {})
    with suppress(OSError, Damaged):  # a full disk, or no permission: then it is decoded again next time
        return store(name, origin, version, decoded) or decoded
    return decoded


def store(name: str, origin: str, version: str, decoded: Decoded) -> Decoded | None:
    """Put it into the cache, in place of other versions; what was put there."""
    place = place_of(name, origin, version)
    arrays = {f"{split}.{field}": array for split in SPLITS for field, array in _arrays(getattr(decoded, split))}
    write_arrays(place, place.name, arrays, _about(decoded))
    for old in place.parent.glob(place.name.rpartition("-")[0] + "-*"):
        if old != place:
            discard(old)
    return find(name, origin, version)


def find(name: str, origin: str, version: str) -> Decoded | None:
    """What has been decoded before, None if nothing has; `Damaged` if it is not as it was."""
    place = place_of(name, origin, version)
    clear_abandoned(place.parent)
    return read_arrays(place, place.name, lambda found: _decoded(found, place))


def exists(name: str, origin: str, version: str) -> bool:
    """Whether it has been decoded before."""
    return (place_of(name, origin, version) / ABOUT).exists()


def _arrays(split: Split) -> list[tuple[str, Array]]:
    arrays = [(field.name, getattr(split, field.name)) for field in fields(Split)]
    return [(name, array) for name, array in arrays if array is not None]


def _about(decoded: Decoded) -> dict[str, Any]:
    nothing = Split(np.empty(0), np.empty(0))
    plain = asdict(replace(decoded, train=nothing, test=nothing))
    return {key: value for key, value in plain.items() if key not in NOT_KEPT}


def _decoded(found: Arrays, place: Path) -> Decoded:
    about = {**found.about, **{name: tuple(found.about[name]) for name in ("classes", "owners")}}
    splits = {name: Split(**_of_split(name, found.arrays)) for name in SPLITS}
    decoded = Decoded(**{**about, **splits, "folder": place, "checksums": found.checksums})
    check_promises(decoded, look_at=[name for name in SPLITS if f"{name}.inputs" in found.read])
    return decoded


def _of_split(split: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(f"{split}."): array for name, array in arrays.items() if name.startswith(f"{split}.")}
