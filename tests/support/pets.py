"""A small data set for the cache: pictures of two animals, some of them by two people; and ways to damage a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smofi.data.decoded import Decoded, Split


def pets(seed: int = 0, train: int = 20) -> Decoded:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (train + 5, 4, 4, 3), dtype=np.uint8)
    return Decoded(
        "image",
        Split(images[:train], rng.integers(0, 2, train), np.arange(train, dtype=np.int32) % 2),
        Split(images[train:], np.arange(5) % 2),
        classes=("cat", "dog"),
        owners=("a", "b"),
        raw_input={"kind": "array", "shape": [4, 4, 3], "type": "uint8"},
    )


def same(one: Decoded, other: Decoded) -> bool:
    plain = ("kind", "classes", "owners", "standardise", "length", "raw_input")
    return all(getattr(one, name) == getattr(other, name) for name in plain) and all(
        (mine is None and theirs is None) or np.array_equal(mine, theirs)
        for part in ("train", "test")
        for field in ("inputs", "targets", "owner", "rows")
        for mine, theirs in [(getattr(getattr(one, part), field), getattr(getattr(other, part), field))]
    )


def keeping_its_time(path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Write something else into a file in its place, and set back its time."""
    before, content = path.stat(), path.read_bytes()
    with open(path, "r+b") as file:
        file.write(damage(content))
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flip(bit: int) -> Callable[[bytes], bytes]:
    """Change one bit of a file, counted from its beginning, or from its end if negative."""

    def flipped(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    return flipped
