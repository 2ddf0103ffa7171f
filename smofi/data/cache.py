"""What a data set's files say, decoded once and kept on disk, with checksums by which damage is noticed.

Several processes may fill and read one cache; what a killed one left half written is removed by the next.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import shutil
import stat
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from filelock import lock_descriptor

from smofi.data.decoded import KINDS, Array, Decoded, Split
from smofi.errors import CacheWarning
from smofi.files import flush, sealed, unsealed, write_atomically

# --------------------------------------------------------------------------------------------------------------------
# Where the cache lies, and what a data set's files look like from outside.


FORMAT = 2
"""Part of every cache's name: increase it when a reader decodes the same files differently."""


def data_home() -> Path:
    """Where data sets are looked for by name, and where their caches lie.

    >>> data_home().is_absolute()
    True
    """
    home = os.environ.get("SMOFI_DATA")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(home) if home else Path(caches) / "smofi").expanduser().absolute()


def place_of(name: str, origin: str, version: str) -> Path:
    """The folder of a data set; all versions of it have names that are alike up to the last hyphen."""
    return data_home() / "decoded" / f"{name}-{_short_hash(origin)}-{_short_hash(f'{FORMAT} {version}')}"


def fingerprint(files: Iterable[Path]) -> str:
    """Names, sizes and times of these files, as a short hash."""
    lines = []
    for path in sorted(map(str, files)):
        status = os.stat(path)
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return _short_hash("\n".join(lines))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# --------------------------------------------------------------------------------------------------------------------
# What is being written has a name of its own until it is whole, and a lock beside it that goes with its process.

UNFINISHED, LOCK = ".unfinished-", ".lock"
A_DAY = 24 * 3600
"""Where a file system knows no locks, what is older than this was left behind."""


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A path in this folder to write at; what is still there at the end is removed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with unfinished(folder) as path:
    ...     size = path.write_text("half of it")
    >>> list(folder.iterdir())
    []
    """
    while True:
        path = folder / f"{UNFINISHED}{uuid.uuid4().hex}"
        with open(_lock_of(path), "ab") as file:
            if not _locked(file, otherwise=True) or not _is_at(file, _lock_of(path)):
                continue  # another process took it for abandoned before it was locked
            try:
                yield path
            finally:
                _remove(path)
                _remove(_lock_of(path))
            return


def discard(path: Path) -> None:
    """Remove a file or a folder with all that is in it; half of it is never seen under its name."""
    with suppress(OSError), unfinished(path.parent) as away:
        os.rename(path, away)


def clear_abandoned(folder: Path) -> None:
    """Remove what processes left in a folder that were killed while they wrote."""
    try:
        names = {name.removesuffix(LOCK) for name in os.listdir(folder) if name.startswith(UNFINISHED)}
    except OSError:  # there is no such folder
        return
    for path in (folder / name for name in names):
        # the lock is made if there is none, so that its owner, if it comes now, finds it taken
        with suppress(OSError), open(_lock_of(path), "ab") as file:
            if _locked(file, otherwise=_old(path)):
                _remove(path)
                _remove(_lock_of(path))


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + LOCK)


def _locked(file: IO[bytes], otherwise: bool) -> bool:
    """Whether this process now has the lock; `otherwise`, where the file system knows no locks."""
    try:
        return lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return otherwise


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _old(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > A_DAY
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


# --------------------------------------------------------------------------------------------------------------------
# Which large files were found whole before, so that a start need not read them again.

SMALL = 2**24
"""Bytes. Smaller files are read in every run: that takes some ten milliseconds."""

SECOND = 10**9
TRUSTED = 7 * 24 * 3600 * SECOND
SETTLED = 2 * SECOND
"""Times of files are coarse: one changed this shortly before it was read may have changed since, at the same time."""


class Checks:
    """What the large files of a folder looked like when they were last found whole, kept in a file beside them.

    `of` are the checksums that they were compared with. Where the file cannot be written, they are read in every run.
    """

    def __init__(self, path: Path, of: str) -> None:
        self.path, self.of, self.new = path, of, False
        self.found: dict[str, list[int]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            kept = unsealed(path.read_bytes()) if path.is_file() else {}
            self.found = dict(kept["found"]) if kept["of"] == of else {}

    def trusts(self, name: str, status: os.stat_result) -> bool:
        """Whether a file was found whole within a week, and has not changed since."""
        match self.found.get(name):
            case [int(at), *looks]:
                fresh = 0 <= time.time_ns() - at < TRUSTED
                return status.st_size > SMALL and fresh and looks == _looks(status)
        return False

    def note(self, name: str, status: os.stat_result, at: int) -> None:
        """A file with this status was found whole; `at` is when reading it began."""
        if status.st_size > SMALL and max(status.st_mtime_ns, status.st_ctime_ns) < at - SETTLED:
            self.found[name], self.new = [at, *_looks(status)], True

    def keep(self) -> None:
        """Write down what was noted, if anything was."""
        if self.new:
            with suppress(OSError):  # no permission, or no room
                write_atomically(self.path, sealed({"of": self.of, "found": self.found}))


def _looks(status: os.stat_result) -> list[Any]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


# --------------------------------------------------------------------------------------------------------------------
# What every reader promises of a data set, checked where it comes from files that anyone could have written.

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


# --------------------------------------------------------------------------------------------------------------------
# Mean and deviation of a data set, found as it is decoded.

SUMMED_AT_ONCE = 2**20


def with_moments(decoded: Decoded) -> Decoded:
    """Mean and deviation of the training inputs, per channel or feature, added to what is known about the data."""
    if not decoded.standardise or decoded.kind == "text":
        return decoded
    inputs = decoded.train.inputs
    columns = inputs.reshape(-1, inputs.shape[-1])
    if inputs.dtype == np.uint8:
        # exact, from how often each of the 256 values occurs
        counts = sum(_counts(some) for some in np.array_split(columns, 1 + len(columns) // SUMMED_AT_ONCE)) / len(
            columns
        )
        mean = counts @ np.arange(256.0)
        deviation = np.sqrt(np.maximum(counts @ np.arange(256.0) ** 2 - mean**2, 0))
    else:
        mean, deviation = columns.mean(0, dtype=np.float64), columns.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a constant becomes 0
    return replace(decoded, about={**decoded.about, "mean": mean.tolist(), "deviation": deviation.tolist()})


def _counts(columns: Array) -> Array:
    return np.stack([np.bincount(column, minlength=256) for column in columns.T])


# --------------------------------------------------------------------------------------------------------------------
# A folder of arrays that reveals its own damage.

ABOUT, CHECKED = "about.json", "checked.json"
TYPES = {np.dtype(name).str for name in ("uint8", "int32", "int64", "float32")}
PIECE = 2**20
T = TypeVar("T")


class Damaged(Exception):
    """A folder that is not as it was written; the message is a clause that tells what is wrong."""


@dataclass(frozen=True)
class _File:
    """What the file of an array is like."""

    dtype: str
    shape: list[int]
    size: int
    sha256: str


@dataclass(frozen=True, eq=False)
class Arrays:
    """What a folder has: the arrays, memory-mapped, and what is known about them. All of `read` were read just now."""

    arrays: dict[str, Array]
    about: dict[str, Any]
    checksums: dict[str, str]
    read: frozenset[str]


def write_arrays(place: Path, of: str, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Make the folder, in place of what is there; `of` says what it belongs to."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(place.parent) as new, unfinished(place.parent) as old:
        new.mkdir()
        files = {name: asdict(_write(new / f"{name}.npy", array)) for name, array in arrays.items()}
        (new / ABOUT).write_bytes(sealed({"of": of, "files": files, "about": about}))
        flush(*new.iterdir(), new)
        with suppress(FileNotFoundError):
            os.rename(place, old)
        try:
            os.rename(new, place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster: then its folder stays
                raise
        flush(place.parent)


def read_arrays(place: Path, of: str, build: Callable[[Arrays], T]) -> T | None:
    """What `build` makes of the folder, None if there is none; `build` raises a ValueError if it cannot be right.

    What is not as it was written, or belongs to something else, is `Damaged`.
    """
    while (inode := _inode(place)) is not None:
        try:
            return _read(place, of, build)
        except Damaged:
            if _inode(place) == inode:  # otherwise another process has just put a new one in its place
                raise
    return None


class _Hashing:
    """Writes to a file, and hashes what was to be written, whatever the disk makes of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.hash.update(content)
        return self.file.write(content)


def _write(path: Path, array: Array) -> _File:
    with open(path, "wb") as file:
        hashing = _Hashing(file)
        np.save(hashing, np.ascontiguousarray(array), allow_pickle=False)
        return _File(array.dtype.str, list(array.shape), file.tell(), hashing.hash.hexdigest())


def _read(place: Path, of: str, build: Callable[[Arrays], T]) -> T:
    with _damaged_if_anything_fails(ABOUT):
        with _opened(place / ABOUT) as file:
            content = unsealed(text := file.read())
        if content["of"] != of:
            raise ValueError("it belongs to something else")
        files = {name: _File(**facts) for name, facts in content["files"].items()}
    checks = Checks(place / CHECKED, of=hashlib.sha256(text).hexdigest())
    arrays, read = {}, set()
    for name, facts in files.items():
        with _damaged_if_anything_fails(f"{name}.npy"), _opened(place / f"{name}.npy") as file:
            if not checks.trusts(name, os.fstat(file.fileno())):
                _compare(name, file, facts, checks)
                read.add(name)
            arrays[name] = _mapped(file, facts)
    with _damaged_if_anything_fails(ABOUT):
        checksums = {name: facts.sha256 for name, facts in files.items()}
        built = build(Arrays(arrays, content["about"], checksums, frozenset(read)))
    checks.keep()
    return built


@contextmanager
def _damaged_if_anything_fails(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(f"{name}: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    """The file, if it is one: anything else might have no end, or no beginning."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a file")
    return open(path, "rb")


def _compare(name: str, file: IO[bytes], facts: _File, checks: Checks) -> None:
    """Read all of a file, and compare it with what was written."""
    at, status, checksum = time.time_ns(), os.fstat(file.fileno()), hashlib.sha256()
    if status.st_size != facts.size:
        raise ValueError(f"{status.st_size:,} bytes, but {facts.size:,} were written")
    while piece := file.read(PIECE):
        checksum.update(piece)
    if checksum.hexdigest() != facts.sha256:
        raise ValueError("its checksum is another")
    checks.note(name, status, at)


def _mapped(file: IO[bytes], facts: _File) -> Array:
    """The array at the end of an open file, so that it is in the very file that was compared."""
    if facts.dtype not in TYPES or not all(type(size) is int and size >= 0 for size in facts.shape):
        raise ValueError(f"type {facts.dtype!r:.40} and shape {facts.shape!r:.40} are never written")
    dtype = np.dtype(facts.dtype)
    begin = facts.size - dtype.itemsize * math.prod(facts.shape)
    if begin < 0:
        raise ValueError(f"{facts.size:,} bytes are too few for shape {facts.shape}")
    # copy-on-write: torch wants arrays that could be written, and nothing ever is
    return np.memmap(file, dtype, mode="c", offset=begin, shape=tuple(facts.shape))


def _inode(place: Path) -> int | None:
    try:
        return os.stat(place).st_ino
    except OSError:
        return None


# --------------------------------------------------------------------------------------------------------------------
# Data sets, decoded once: plain arrays in a folder of the user's cache, memory-mapped when they are used.

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


# --------------------------------------------------------------------------------------------------------------------
# Images brought to another size once, kept in the folder of their data set.

IMAGES = "images"


@dataclass(frozen=True, eq=False)
class ResizedImages:
    """Keeps resized images of a split in a folder; `inputs` are those that they are made from, of this checksum.

    Of each size, one selection of rows is kept: another one replaces it. They go when the data set's folder goes.
    """

    folder: Path
    split: str
    inputs: Array
    checksum: str

    def keep(self, side: int, rows: Array, resize: Callable[[], Array], some: Array | None = None) -> Array:
        """What `resize` makes of these rows, from the folder if it was made before.

        `some` of the rows are taken from all of them where those are kept, and otherwise kept beside them.
        """
        clear_abandoned(self.folder)
        if (found := self._find(self.split, side, rows)) is not None:
            return found if some is None else found[some]
        name = self.split
        if some is not None:
            name, rows = f"{self.split}.some", rows[some]
            if (found := self._find(name, side, rows)) is not None:
                return found
        images = resize()
        with suppress(OSError):  # as in `cached`: then it is resized again next time
            self._store(name, side, rows, images)
            found = self._find(name, side, rows)
        return images if found is None else found

    def _find(self, name: str, side: int, rows: Array) -> Array | None:
        place, of = self._place_and_owner(name, side, rows)
        try:
            return read_arrays(place, of, lambda found: self._images(found, len(rows), side))
        except Damaged as damage:
            warnings.warn(f"{place} is damaged ({damage}): its images are resized anew", CacheWarning, stacklevel=2)
            discard(place)
            return None

    def _store(self, name: str, side: int, rows: Array, images: Array) -> None:
        place, of = self._place_and_owner(name, side, rows)
        write_arrays(place, of, {IMAGES: images}, {})
        for old in self.folder.glob(place.name.rpartition("-")[0] + "-*"):
            if old != place:
                discard(old)

    def _place_and_owner(self, name: str, side: int, rows: Array) -> tuple[Path, str]:
        """Where these rows of this size are kept, and what they belong to."""
        chosen = hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()
        return self.folder / f"{name}.inputs.{side}-{chosen[:12]}", f"{self.checksum} {side} {chosen}"

    def _images(self, found: Arrays, count: int, side: int) -> Array:
        images = found.arrays[IMAGES]
        if images.shape != (count, side, side, self.inputs.shape[3]) or images.dtype != self.inputs.dtype:
            raise ValueError(f"its images have shape {list(images.shape)} and type {images.dtype}")
        if IMAGES in found.read:
            check_finite(IMAGES, images)
        return images
