"""A user's own .npz file, read so that nothing in it is run and no more memory is taken than it can fill.

Only the arrays that are needed are unpacked; of the others, only the header is looked at.
"""

from __future__ import annotations

import ast
import io
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress
from smofi.data.formats.arrays import from_arrays, needed, taken
from smofi.data.formats.files import MOST_INFLATED, check_room, regular_size, wrong
from smofi.errors import InputError
from smofi.memory import as_text

# --------------------------------------------------------------------------------------------------------------------
# The header of a numpy array in a file: what type and shape it claims to have, as plain values, never executed.


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


# --------------------------------------------------------------------------------------------------------------------
# A user's own .npz file, read so that nothing in it is run and no more memory is taken than it can fill.

PIECE = 1 << 20
"""How many bytes are read at once, and the longest directory that a zip file may have."""

MEMBER_HEADER = 30
"""The fewest bytes before the content of a member."""

ENCRYPTED = 0x1 | 0x40
PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: MOST_INFLATED}
"""The two ways in which numpy packs, and how many bytes a packed one can become at most."""

BROKEN = (OSError, EOFError, ValueError, RuntimeError, OverflowError, zipfile.BadZipFile, zlib.error, struct.error)


class Bounded(io.BufferedReader):
    """A file that gives at most a piece at a time, whatever length is claimed for what is in it."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(PIECE + 1 if size is None or not 0 <= size <= PIECE else size)
        if len(content) > PIECE:
            raise zipfile.BadZipFile(f"its directory is longer than {PIECE:,} bytes")
        return content


def find_npz(path: Path) -> DataFiles:
    """The arrays of the file, as `from_arrays` takes them; progress counts bytes.

    >>> find_npz(Path("nothing.npz"))
    Traceback (most recent call last):
    smofi.errors.InputError: nothing.npz is not accepted: expected an .npz file (No such file or directory)
    """
    regular_size(path, "an .npz file")
    return DataFiles([path], partial(_read, path))


def _read(path: Path, progress: ReadProgress) -> Decoded:
    with _refusing(path), Bounded(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in _checked(archive, path)}
        headers = {key: _header(archive, info, path) for key, info in members.items()}
        keys = needed(members)
        _check_room({key: headers[key] for key in keys}, path)
        total, done = sum(members[key].file_size for key in keys), 0
        arrays: dict[str, Any] = dict.fromkeys(members)
        for key in keys:
            arrays[key] = _unpack(archive, members[key], headers[key], path, partial(_tell, progress, done, total))
            done += members[key].file_size
    return from_arrays(arrays, str(path))


def _tell(progress: ReadProgress, before: int, total: int, now: int) -> None:
    progress(before + now, total)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Any failure inside means that the file is damaged."""
    try:
        yield
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(f"{path} is not accepted: expected an undamaged .npz file ({error!s:.200})") from error


def _checked(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """The members as they lie in the file, if that can be true: arrays, each once, of possible sizes, side by side."""
    members = sorted(archive.infolist(), key=lambda info: info.header_offset)
    names, end = set(), 0
    for info in members:
        member = f"{info.filename!r:.100}"
        if not info.filename.endswith(".npy"):
            wrong(path, f"arrays (.npy) only, but there is {member}")
        if info.filename in names:
            wrong(path, f"every array once, but {member} occurs twice")
        if info.flag_bits & ENCRYPTED:
            wrong(path, f"arrays that are not encrypted, but {member} is")
        if info.compress_type not in PACKED:
            wrong(path, f"arrays stored or deflated, but {member} is packed in another way")
        if info.file_size > info.compress_size * PACKED[info.compress_type]:
            wrong(path, f"possible sizes, but {member} claims {info.file_size:,} bytes out of {info.compress_size:,}")
        if info.header_offset < end:
            wrong(path, f"arrays that do not overlap, but {member} overlaps the one before")
        names.add(info.filename)
        end = info.header_offset + MEMBER_HEADER + info.compress_size
    if end > archive.start_dir:
        wrong(path, f"arrays of {archive.start_dir:,} bytes together, but they claim {end:,}")
    return members


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> ArrayHeader:
    """The header of an array, if it claims as many bytes as there are."""
    member = f"{info.filename!r:.100}"
    with archive.open(info) as file:
        header = read_array_header(file, f"{member} in {path}")
    if header.size is not None and header.size != info.file_size:
        shape = f"shape {list(header.shape)!s:.100} and type {header.dtype}"
        wrong(path, f"{header.size:,} bytes in {member}, as it claims {shape}, but it has {info.file_size:,}")
    return header


def _check_room(headers: dict[str, ArrayHeader], path: Path) -> None:
    """Refuse arrays that claim more memory than there is, before one of them is unpacked."""
    claims = [taken(key, one.dtype, one.shape) for key, one in headers.items() if one.dtype is not None]
    if claims:
        most, arithmetic = max(claims)
        needed = sum(claim for claim, _ in claims)
        check_room(path, needed, f"{arithmetic} = {as_text(most)}, and all arrays together")


def _unpack(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: ArrayHeader, path: Path, report: Callable[[int], None]
) -> Array:
    """The array, in memory; that its size is possible was checked before."""
    if header.dtype is None:
        wrong(path, f"numbers or words in {info.filename!r}, but its type is {header.kind!r:.100}")
    if 0 in header.shape:
        wrong(path, f"at least one sample in {info.filename!r}, but its shape is {list(header.shape)}")
    content = np.empty(info.file_size, np.uint8)
    done, next_report = 0, 0
    with archive.open(info) as file:
        while piece := file.read(min(PIECE, len(content) - done + 1)):  # one more: at the end, the checksum is compared
            content[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
            if done >= next_report:
                report(done)
                next_report = done + len(content) // 100
    if done != len(content):
        wrong(path, f"{len(content):,} bytes in {info.filename!r}, but there are {done:,}")
    report(done)
    return header.array(content)
