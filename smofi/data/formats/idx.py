"""The idx format, in which MNIST came: arrays of bytes, packed by gzip or not.

00 00 08 (unsigned bytes), the number of sizes, each size as four bytes (largest first), the bytes
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array
from smofi.data.formats.files import MOST_INFLATED, PIECE, regular_size, wrong

MOST_BYTES = 2**31
"""In one file, unpacked; the largest of Fashion-MNIST has 47 million."""


@dataclass(frozen=True)
class IdxHeader:
    """What the beginning of a file announces; `start` is where the bytes begin."""

    path: Path
    shape: tuple[int, ...]
    start: int

    @property
    def sizes(self) -> str:
        """The shape, to be shown."""
        return " x ".join(f"{size:,}" for size in self.shape)


def read_idx_header(path: Path, axes: int) -> IdxHeader:
    """The header of an idx file with this number of axes, if it announces what can be in the file."""
    start = 4 + 4 * axes
    size = regular_size(path, "an idx file")
    with _opened(path) as file:
        header = file.read(start)
    if len(header) < start or header[:4] != bytes((0, 0, 8, axes)):
        wrong(
            path,
            f"an idx file that begins with 00 00 08 {axes:02x}, but it begins with {header[:4].hex(' ') or 'nothing'}",
        )
    found = IdxHeader(path, tuple(int(side) for side in np.frombuffer(header[4:], ">u4")), start)
    needed = start + math.prod(found.shape)
    if needed == start or needed > MOST_BYTES:
        wrong(path, f"1 to {MOST_BYTES:,} bytes, but it announces {found.sizes}")
    if needed > size * MOST_INFLATED if path.suffix == ".gz" else needed != size:
        wrong(path, f"{needed:,} bytes for the {found.sizes} it announces, but it has {size:,}")
    return found


def read_idx(header: IdxHeader) -> Array:
    """The bytes that a file announces, as an array."""
    path = header.path
    array = np.empty(header.shape, np.uint8)
    content, done = array.data.cast("B"), 0
    with _opened(path) as file:
        file.read(header.start)
        while done < len(content) and (some := file.readinto(content[done : done + PIECE])):
            done += some
        more = len(file.read(1))  # at the end, gzip compares the checksum
    if done + more != len(content):
        found = f"{header.start + done:,}" if done < len(content) else "more"
        wrong(path, f"{header.start + len(content):,} bytes for the {header.sizes} it announces, but it has {found}")
    return array


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"an idx file ({getattr(error, 'strerror', None) or error})")
