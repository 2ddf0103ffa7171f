"""The idx format, in which MNIST came: arrays of bytes, packed by gzip or not.

00 00 08 (unsigned bytes), the number of sizes, each size as four bytes (largest first), the bytes
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array
from smofi.data.formats.files import MOST_INFLATED, read_bytes, wrong

MOST_BYTES = 2**31
"""In one file, unpacked; the largest of Fashion-MNIST has 47 million."""


def read_idx(path: Path, axes: int) -> Array:
    """The bytes of an idx file, as an array with this number of axes; memory is taken only for what can be in it."""
    before = 4 + 4 * axes
    header = _beginning(path, before)
    if len(header) < before or header[:4] != bytes((0, 0, 8, axes)):
        wrong(
            path,
            f"an idx file that begins with 00 00 08 {axes:02x}, but it begins with {header[:4].hex(' ') or 'nothing'}",
        )
    shape = tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))
    needed = before + math.prod(shape)
    sizes = " x ".join(f"{size:,}" for size in shape)
    if needed == before or needed > MOST_BYTES:
        wrong(path, f"1 to {MOST_BYTES:,} bytes, but it announces {sizes}")
    size = path.stat().st_size
    if needed > size * MOST_INFLATED if path.suffix == ".gz" else needed != size:
        wrong(path, f"{needed:,} bytes for the {sizes} it announces, but it has {size:,}")
    content = read_bytes(path, needed, f"{sizes} bytes")
    if len(content) != needed:
        wrong(path, f"{needed:,} bytes for the {sizes} it announces, but it has {len(content):,}")
    return np.frombuffer(content, np.uint8, offset=before).reshape(shape)


def _beginning(path: Path, size: int) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"an idx file ({getattr(error, 'strerror', None) or error})")
