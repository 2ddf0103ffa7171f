"""Keep what data sets decode to: a file for each data set, memory-mapped when it is used.

    decoded/NAME-ORIGIN-VERSION                 its samples; another version takes the place of the one before
    decoded/NAME-ORIGIN-VERSION.train.32-ROWS   some of its images at another size
    decoded/....checked                         when a large file was last found whole

A file has its arrays, each at a multiple of 64 bytes, then a sealed description of them with their checksum, and in the
last 8 bytes the length of that. It is written under another name, brought to the disk and renamed, so that processes
may make and read one cache at the same time.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from smofi.data.decoded import Array, Decoded, Split, with_moments
from smofi.errors import CacheWarning, InputError
from smofi.files import flush, sealed, unsealed, write_atomically

FORMAT = 3
"""Part of every name: increase it when a reader decodes the same files differently."""

ALIGNED = 64
PIECE = 2**20
"""Bytes that are hashed, and numbers that are looked at, in one go."""

SMALL = 2**24
"""Bytes. Smaller files are read in every run: that takes some ten milliseconds."""

SECOND = 10**9
A_DAY = 24 * 3600
TRUSTED = 7 * A_DAY * SECOND
SETTLED = 2 * SECOND
"""Times of files are coarse: one changed this shortly before it was read may have changed since, at the same time."""

LOOKS = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
"""By which a file is known to be the one that was found whole."""

INPUTS = {"image": (4, ("uint8", "float32")), "vector": (2, ("float32",)), "text": (2, ("uint8",))}
"""By the kind of data: how many axes inputs have, and of which types they are. One long text has a single axis."""

SPLITS = ("train", "test")
NOT_KEPT = (*SPLITS, "file", "checksum")

T = TypeVar("T")


class Damaged(Exception):
    """A file that is not as it was written; the message is a clause that tells what is wrong."""


def data_home() -> Path:
    """Return where data sets are looked for by name, and where their caches lie."""
    home = os.environ.get("SMOFI_DATA")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(home) if home else Path(caches) / "smofi").expanduser().absolute()


def fingerprint(files: Iterable[Path]) -> str:
    """Hash the names, sizes and times of these files."""
    lines = []
    for path in sorted(map(str, files)):
        try:
            status = os.stat(path)
        except OSError as error:  # a link to nowhere
            raise InputError(f"{path} is not accepted: expected a file that can be read ({error.strerror})") from error
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return _short_hash("\n".join(lines))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# --------------------------------------------------------------------------------------------------------------------
# Data sets.


def place_of(name: str, origin: str, version: str) -> Path:
    """Return the file of a data set; the names of all its versions are alike up to the last hyphen."""
    return data_home() / "decoded" / f"{name}-{_short_hash(origin)}-{_short_hash(f'{FORMAT} {version}')}"


def cached(name: str, origin: str, version: str, decode: Callable[[], Decoded]) -> Decoded:
    """Return what `decode` gives, from the cache if it has been decoded before.

    `origin` says where the data comes from, `version` what state that is in: another version replaces the one before.
    """
    place = place_of(name, origin, version)
    with _believed(place, f"{origin} is decoded anew"):
        if (found := find(name, origin, version)) is not None:
            return found
    decoded = with_moments(decode())
    with suppress(OSError, Damaged):  # a full disk, or no permission: then it is decoded again next time
        return store(name, origin, version, decoded) or decoded
    return decoded


@contextmanager
def _believed(place: Path, then: str) -> Iterator[None]:
    """Warn of a damaged file, and of what is done instead."""
    try:
        yield
    except Damaged as damage:
        warnings.warn(f"{place} is damaged ({damage}): {then}", CacheWarning, stacklevel=4)


def store(name: str, origin: str, version: str, decoded: Decoded) -> Decoded | None:
    """Put a data set into the cache, in place of other versions; return it as it is there."""
    place = place_of(name, origin, version)
    arrays = {
        f"{split}.{field.name}": array
        for split in SPLITS
        for field in fields(Split)
        if (array := getattr(getattr(decoded, split), field.name)) is not None
    }
    nothing = Split(np.empty(0), np.empty(0))
    plain = asdict(replace(decoded, train=nothing, test=nothing))
    about = {key: value for key, value in plain.items() if key not in NOT_KEPT}
    write_arrays(place, place.name, arrays, about)
    _remove_others(place)
    return find(name, origin, version)


def find(name: str, origin: str, version: str) -> Decoded | None:
    """Return what has been decoded before, None if nothing has; `Damaged` if it is not as it was."""
    place = place_of(name, origin, version)
    return read_arrays(place, place.name, lambda found: _decoded(found, place))


def _decoded(found: Arrays, place: Path) -> Decoded:
    about = {**found.about, **{name: tuple(found.about[name]) for name in ("classes", "owners")}}
    for split in SPLITS:
        own = {name: array for name, array in found.arrays.items() if name.startswith(f"{split}.")}
        about[split] = Split(**{name.removeprefix(f"{split}."): array for name, array in own.items()})
    decoded = Decoded(**about, file=place, checksum=found.checksum)
    check_promises(decoded, look_at_inputs=found.read)
    return decoded


def check_promises(decoded: Decoded, look_at_inputs: bool = True) -> None:
    """Raise a ValueError, with a clause that tells what is wrong, unless a reader could have made this."""
    axes, types = INPUTS[decoded.kind]
    for name, split in (("train", decoded.train), ("test", decoded.test)):
        inputs, long = split.inputs, split.rows is not None
        fits = inputs.ndim == (1 if long else axes) and inputs.dtype.name in types and 0 not in inputs.shape
        as_many = decoded.length > 0 and decoded.kind == "text" if long else len(inputs) == len(split.targets)
        if not fits or not as_many:
            raise ValueError(f"{name}.inputs has shape {list(inputs.shape)} and type {inputs.dtype}")
        limits = (
            ("targets", split.targets, "int64", len(decoded.classes)),
            ("owner", split.owner, "int32", len(decoded.owners)),
            ("rows", split.rows, "int64", len(inputs) - decoded.length),
        )
        for what, numbers, kind, limit in limits:
            if numbers is not None and not _are_below(limit, numbers, kind, len(split.targets)):
                count = f"{len(split.targets)} numbers of type {kind} from 0 to {limit - 1}"
                raise ValueError(f"{name}.{what} are not {count}")
        if look_at_inputs and decoded.kind == "text" and inputs.max() >= len(decoded.classes):
            raise ValueError(f"{name}.inputs has characters that do not exist")
        if look_at_inputs:
            check_finite(f"{name}.inputs", inputs)
    one, other = decoded.train.inputs, decoded.test.inputs
    if one.dtype != other.dtype or one.shape[1:] != other.shape[1:]:
        raise ValueError("test.inputs is unlike train.inputs")
    moments = [np.array(decoded.about[name]) for name in ("mean", "deviation") if name in decoded.about]
    if len(moments) != (2 if decoded.standardise and decoded.kind != "text" else 0):
        raise ValueError("mean and deviation are missing")
    for moment in moments:
        if moment.dtype != np.float64 or moment.shape != one.shape[-1:] or not np.isfinite(moment).all():
            raise ValueError(f"mean and deviation are not {one.shape[-1]} finite numbers each")
    if moments and min(moments[1]) <= 0:
        raise ValueError("deviation is not positive")


def _are_below(limit: int, numbers: Array, kind: str, count: int) -> bool:
    if numbers.dtype.name != kind or numbers.shape != (count,) or not count:
        return False
    return bool(numbers.min() >= 0 and numbers.max() < limit)


def check_finite(name: str, numbers: Array) -> None:
    """Raise a ValueError if there is any number that is not finite."""
    flat = numbers.reshape(-1)
    for begin in range(0, len(flat) if numbers.dtype.kind == "f" else 0, PIECE):
        if not np.isfinite(flat[begin : begin + PIECE]).all():
            raise ValueError(f"{name} has numbers that are not finite")


# --------------------------------------------------------------------------------------------------------------------
# Images brought to another size, beside the data set that they are from.


def kept_images(decoded: Decoded, split: str, side: int, rows: Array, resize: Callable[[], Array]) -> Array:
    """Return what `resize` makes of these rows of a split, from the cache if it was made before.

    Of each size, one selection of rows is kept: another one replaces it. They go when the data set goes.
    """
    assert decoded.file is not None
    chosen = hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()
    place = decoded.file.with_name(f"{decoded.file.name}.{split}.{side}-{chosen[:12]}")
    of, inputs = f"{decoded.checksum} {split} {side} {chosen}", getattr(decoded, split).inputs

    def images(found: Arrays) -> Array:
        kept = found.arrays["images"]
        if kept.shape != (len(rows), side, side, inputs.shape[3]) or kept.dtype != inputs.dtype:
            raise ValueError(f"its images have shape {list(kept.shape)} and type {kept.dtype}")
        if found.read:
            check_finite("images", kept)
        return kept

    with _believed(place, "its images are resized anew"):
        if (found := read_arrays(place, of, images)) is not None:
            return found
    resized = resize()
    with suppress(OSError, Damaged):  # as in `cached`: then it is resized again next time
        write_arrays(place, of, {"images": resized}, {})
        _remove_others(place)
        return found if (found := read_arrays(place, of, images)) is not None else resized
    return resized


# --------------------------------------------------------------------------------------------------------------------
# A file of arrays that reveals its own damage.


@dataclass(frozen=True, eq=False)
class Arrays:
    """The content of a file: its arrays, memory-mapped, and what is known about them; `read` if all was read now."""

    arrays: dict[str, Array]
    about: dict[str, Any]
    checksum: str
    read: bool


def write_arrays(path: Path, of: str, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Make a file, in place of what is there; `of` says what it belongs to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb") as file:
            checksum, kept = hashlib.sha256(), {}
            for name, array in arrays.items():
                content = np.ascontiguousarray(array)
                kept[name] = [content.dtype.str, list(content.shape), file.tell()]
                for piece in (content.reshape(-1).view(np.uint8).data, bytes(-content.nbytes % ALIGNED)):
                    checksum.update(piece)
                    file.write(piece)
            end = sealed({"of": of, "arrays": kept, "sha256": checksum.hexdigest(), "about": dict(about)})
            file.write(end + len(end).to_bytes(8, "little"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    flush(path.parent)


def read_arrays(path: Path, of: str, build: Callable[[Arrays], T]) -> T | None:
    """Return what `build` makes of a file, None if there is none; `build` raises a ValueError if it cannot be right.

    What is not as it was written, or belongs to something else, is `Damaged`.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # it might have no end, or no beginning
            raise Damaged("it is not a file")
        with open(path, "rb") as file:
            return _read(path, file, of, build)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Damaged(str(error.strerror or error)) from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(str(error)) from error


def _read(path: Path, file: IO[bytes], of: str, build: Callable[[Arrays], T]) -> T:
    status, at = os.fstat(file.fileno()), time.time_ns()
    file.seek(max(0, status.st_size - 8))
    end = status.st_size - 8 - int.from_bytes(file.read(), "little")
    if end < 0:
        raise ValueError(f"{status.st_size:,} bytes are too few")
    file.seek(end)
    about = unsealed(file.read(status.st_size - 8 - end))
    if about["of"] != of:
        raise ValueError("it belongs to something else")
    note = path.with_name(f"{path.name}.checked")
    trusted = status.st_size > SMALL and _found_whole(note, about["sha256"], status)
    if not trusted:
        checksum, left = hashlib.sha256(), end
        file.seek(0)
        while piece := file.read(min(PIECE, left)):
            checksum.update(piece)
            left -= len(piece)
        if left or checksum.hexdigest() != about["sha256"]:
            raise ValueError("its checksum is another")
    arrays = {name: _mapped(file, end, *kept) for name, kept in about["arrays"].items()}
    built = build(Arrays(arrays, about["about"], about["sha256"], read=not trusted))
    settled = max(status.st_mtime_ns, status.st_ctime_ns) < at - SETTLED
    if not trusted and status.st_size > SMALL and settled:
        with suppress(OSError):  # no permission, or no room
            write_atomically(note, sealed([about["sha256"], at, *(getattr(status, name) for name in LOOKS)]))
    return built


def _mapped(file: IO[bytes], end: int, kind: str, shape: list[int], begin: int) -> Array:
    dtype = np.dtype(kind)
    if dtype.kind not in "uif" or not all(type(size) is int and size >= 0 for size in (*shape, begin)):
        raise ValueError(f"type {kind!r:.40} and shape {shape!r:.40} are never written")
    if begin + dtype.itemsize * math.prod(shape) > end:
        raise ValueError(f"{end:,} bytes are too few for shape {shape}")
    # copy-on-write: torch wants arrays that could be written, and nothing ever is
    return np.memmap(file, dtype, mode="c", offset=begin, shape=tuple(shape))


def _found_whole(note: Path, checksum: str, status: os.stat_result) -> bool:
    """Tell whether a file was found whole within a week, and has not changed since."""
    with suppress(OSError, ValueError, TypeError):
        if note.is_file():
            of, at, *looks = unsealed(note.read_bytes())
            return bool(
                of == checksum
                and 0 <= time.time_ns() - at < TRUSTED
                and looks == [getattr(status, name) for name in LOOKS]
            )
    return False


def _remove_others(place: Path) -> None:
    """Remove other versions of what is in a file, and what is kept beside them."""
    for path in place.parent.glob(place.name.rpartition("-")[0] + "-*"):
        if not path.name.startswith(place.name):
            with suppress(OSError):
                path.unlink()


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed while they wrote left behind a day ago or earlier."""
    for path in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > A_DAY:
                path.unlink()
