"""The header of a numpy array in a file: what type and shape it claims to have, as plain values, never executed."""

from __future__ import annotations

import ast
import math
import re
import warnings
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import numpy as np

from smofi.data.decoded import Array
from smofi.errors import InputError

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
"""By the version of the format: in how many bytes the length of the header is written."""

LONGEST = 10_000
MOST_DIMENSIONS = 32
TYPE = re.compile(r"[<>|=]?[biufcUSV][0-9]{1,9}")


@dataclass(frozen=True)
class ArrayHeader:
    """What the header says. `kind` is its word for the type, `dtype` is None if that is never read: objects, records.

    >>> ArrayHeader("<f4", np.dtype("<f4"), (2, 3), fortran=False, start=128).size
    152
    """

    kind: Any
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size(self) -> int | None:
        """How many bytes header and array have, None if that cannot be known."""
        return None if self.dtype is None else self.start + self.dtype.itemsize * math.prod(self.shape)

    def array(self, content: Array) -> Array:
        """The array in these bytes, header included, whose number is `size`."""
        flat: Array = content[self.start :].view(self.dtype or np.uint8)
        return flat.reshape(self.shape[::-1]).T if self.fortran else flat.reshape(self.shape)


def read_array_header(file: IO[bytes], name: str) -> ArrayHeader:
    """The header at the beginning of a file; errors call the file `name`.

    >>> import io; file = io.BytesIO(); np.save(file, np.zeros((2, 3), np.float32)); position = file.seek(0)
    >>> read_array_header(file, "x.npy").shape
    (2, 3)
    """
    begin = file.read(len(MAGIC) + 2)
    if begin[: len(MAGIC)] != MAGIC or len(begin) < len(MAGIC) + 2 or begin[-2] not in LENGTH_BYTES:
        _refuse(name, f"a numpy array, but it begins with {begin!r}")
    width = LENGTH_BYTES[begin[-2]]
    length = int.from_bytes(file.read(width), "little")
    if length > LONGEST:
        _refuse(name, f"a header of at most {LONGEST:,} bytes, but it claims {length:,}")
    content = file.read(length)
    if len(content) < length:
        _refuse(name, f"a header of {length:,} bytes, but it ends after {len(content):,}")
    kind, shape, fortran = _parsed(content.decode("latin1"), name)
    return ArrayHeader(kind, _dtype(kind), shape, fortran, len(begin) + width + length)


def _parsed(text: str, name: str) -> tuple[Any, tuple[int, ...], bool]:
    """Type, shape and order of a header, which is a dictionary of plain values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that only looks odd
            header = ast.literal_eval(text.strip())
        kind, shape, fortran = header.pop("descr"), header.pop("shape"), header.pop("fortran_order")
        plain = not header and isinstance(fortran, bool) and isinstance(shape, tuple) and len(shape) <= MOST_DIMENSIONS
        if plain and all(type(size) is int and 0 <= size < 2**63 for size in shape):
            return kind, shape, fortran
    except (SyntaxError, ValueError, TypeError, AttributeError, LookupError, RecursionError, MemoryError):
        pass
    _refuse(name, f"a header with descr, shape and fortran_order, but it is {text!r:.100}")


def _dtype(kind: Any) -> np.dtype[Any] | None:
    if not isinstance(kind, str) or not TYPE.fullmatch(kind):
        return None
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError, OverflowError):
        return None
    return dtype if dtype.itemsize else None


def _refuse(name: str, expected: str) -> NoReturn:
    raise InputError(f"{name} is not accepted: expected {expected}")
