"""The user's own samples as arrays: an .npz file, a table in .csv files, or what a function of theirs returns.

x         uint8 [samples, height, width], or with 1 or 3 channels last or first: images, standardised
          floats of the same shapes: images, taken as they are
          floats [samples, features]: taken as they are; whole numbers: standardised
y         whole numbers or words; what occurs, sorted, are the classes, unless `classes` names them in order
client    whose sample it is: whole numbers or words; `client_test` too. It may also be called user, speaker, role,
          site, writer, hospital, patient or device

`x_test` and `y_test` are beside them if the test is the user's too. A table has a column `label` for y, and may have
one `client` and one `split`, with the words train and test; all others are features.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import sys
import warnings
import zipfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split, every_hundredth, with_moments
from smofi.data.outside import MOST_INFLATED, check_room, printable, regular_size, wrong
from smofi.data.rows import rows
from smofi.data.source import Source
from smofi.errors import InputError, refuse
from smofi.memory import as_text, room
from smofi.seeds import generator
from smofi.spec import failed, import_function

OWNERS = ("client", "user", "speaker", "role", "site", "writer", "hospital", "patient", "device")
LABELS = ("label", "y", "class", "target")
SPLITS = ("train", "test")
KEYS = ("classes", *(key + end for key in ("x", "y", *OWNERS) for end in ("", "_test")))
CHANNELS = (1, 3)
MOST_LISTED = 10

HELD_OUT = 5
"""Every fifth sample is for the test, where the user has set none apart."""

LEAST_CLASSES: ContextVar[int] = ContextVar("least_classes", default=2)
"""How many classes data has to have."""


@contextmanager
def one_class_will_do() -> Iterator[None]:
    """Accept data of one class inside: others that are trained with have more."""
    token = LEAST_CLASSES.set(1)
    try:
        yield
    finally:
        LEAST_CLASSES.reset(token)


def hold_out(labels: Array, name: str) -> tuple[Array, Array]:
    """Choose samples to train on and to test on: every fifth, class by class, but never a class's only one."""
    order = generator(0, "test split").permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    several = by_class[np.bincount(labels)[labels[by_class]] > 1]
    if not len(several):
        _refuse(name, "a test set, or a class with two samples to hold one out")
    held_out = np.zeros(len(labels), dtype=bool)
    held_out[several[::HELD_OUT]] = True
    return order[~held_out[order]], order[held_out[order]]


def say_held_out(what: str, instead: str) -> str:
    """Describe a test set that was held out, and what would be one of the user's own."""
    return f"a fifth of the {what}, held out; to choose the test set yourself, add {instead}"


def _refuse(name: str, expected: str) -> NoReturn:
    raise InputError(f"{name} is not accepted: expected {expected}")


# --------------------------------------------------------------------------------------------------------------------
# Arrays by key, as a data set.


def from_arrays(arrays: Mapping[str, Any], name: str) -> Decoded:
    """Make a data set of numpy arrays or torch tensors, shuffled; without a test, a fifth of every class is held out.

    Images with 1 or 3 both first and last are taken to have their channels last.
    """
    owner_key = _check_keys(arrays, name)
    given = {key: _array(arrays[key], key, name) for key in KEYS[1:] if key in arrays}
    names = _class_names(arrays["classes"], name) if "classes" in arrays else None
    inputs = {key: _inputs(array, key, name) for key, array in given.items() if key in ("x", "x_test")}
    rest = {key: _values(array, key, name) for key, array in given.items() if key not in inputs}
    for key, found in rest.items():
        samples = len(inputs["x_test" if key.endswith("_test") else "x"])
        if len(found) != samples:
            _refuse(name, f"one value of {key} per sample, but there are {len(found):,} for {samples:,} samples")
    (shape, kind), *others = ((list(array.shape[1:]), given[key].dtype) for key, array in inputs.items())
    for other, its_own in others:
        if other != shape or (its_own.kind == "f") != (kind.kind == "f"):
            unlike = f"shape {shape} and type {kind}, but they have shape {other} and type {its_own}"
            _refuse(name, f"samples of x_test like those of x, {unlike}")

    targets, classes = _number_classes({key: rest[key] for key in ("y", "y_test") if key in rest}, names, name)
    owner, owners = _number_owners({key: array for key, array in rest.items() if key not in targets}, name)
    train = Split(inputs["x"], targets["y"], owner.get(owner_key))
    if "x_test" in inputs:
        train = train[generator(0, "train order").permutation(len(train.targets))]
        test = Split(inputs["x_test"], targets["y_test"], owner.get(f"{owner_key}_test"))
        test = test[generator(0, "test order").permutation(len(test.targets))]
    else:
        kept, held_out = hold_out(train.targets, name)
        train, test = train[kept], train[held_out]
    said = "x_test and y_test" if "x_test" in inputs else say_held_out("samples", "x_test and y_test")
    unused = [key for key in arrays if key not in KEYS]
    return Decoded(
        kind="image" if train.inputs.ndim == 4 else "vector",
        train=train,
        test=test,
        classes=tuple(map(printable, classes)),
        owners=tuple(map(printable, owners)),
        standardise=given["x"].dtype.kind != "f",
        about={"test": said, **({"left_out": f"keys that are not used: {_listed(unused)}"} if unused else {})},
        raw_input={"kind": "array", "shape": list(train.inputs.shape[1:]), "type": train.inputs.dtype.name},
    )


def _listed(keys: Iterable[Any]) -> str:
    names = sorted(printable(str(key))[:40] for key in keys)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def _check_keys(keys: Iterable[str], name: str) -> str:
    """Refuse keys that are missing, or that need another one; return the key of the owners."""
    keys = set(keys)
    for key in ("x", "y"):
        if key not in keys:
            _refuse(name, f"the arrays x and y, but there is no {key}, only {_listed(keys) or 'nothing'}")
    if ("x_test" in keys) != ("y_test" in keys):
        _refuse(name, "both x_test and y_test or neither, but there is only one of them")
    found = [key for key in OWNERS if key in keys]
    if len(found) > 1:
        _refuse(name, f"one of {', '.join(OWNERS)}, but there are {' and '.join(found)}: leave the others out")
    for key in OWNERS:
        if f"{key}_test" in keys and not {key, "x_test"} <= keys:
            _refuse(name, f"{key}_test only beside {key}, x_test and y_test")
    return found[0] if found else ""


def _array(value: Any, key: str, name: str) -> Array:
    """Take a numpy array of numbers or words with at least one sample, or a tensor."""
    accepted = f"{key} to be a numpy array or torch tensor of numbers or words"
    if isinstance(value, torch.Tensor):
        try:
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        except (TypeError, RuntimeError) as error:
            raise InputError(f"{name} is not accepted: expected {accepted} ({error})") from error
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        _refuse(name, f"{accepted}, but it is of type {type(value).__name__}")
    if value.dtype.kind not in "biufUST":
        _refuse(name, f"{accepted}, but it has type {value.dtype}")
    if value.ndim == 0 or value.size == 0:
        _refuse(name, f"at least one sample in {key}, but it has shape {list(value.shape)}")
    return np.asarray(value)


def _inputs(array: Array, key: str, name: str) -> Array:
    """Take images `[samples, height, width, channels]`, uint8 or float32, or vectors, float32; contiguous, writable."""
    shape, vector, floats = list(array.shape), array.ndim == 2, array.dtype.kind == "f"
    fits = array.dtype.kind in "biuf" if vector else array.ndim in (3, 4) and (floats or array.dtype == np.uint8)
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in CHANNELS:
        fits = fits and array.shape[1] in CHANNELS
        array = array.transpose(0, 2, 3, 1)
    if not fits:
        _refuse(
            name,
            f"{key} to be images (uint8 or floats, [samples, height, width] or with 1 or 3 channels last or first) "
            f"or vectors (numbers, [samples, features]), but it has shape {shape} and type {array.dtype}",
        )
    if not vector and not floats:
        return np.require(array, requirements=["C", "W"])
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32, order="C", copy=False)  # copied when it is shuffled
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if not finite.all():
        _refuse(
            name, f"finite numbers in {key}, but sample {np.argmin(finite)} (counting from 0) has values that are not"
        )
    return numbers


def _values(array: Array, key: str, name: str) -> Array:
    """Take whole numbers as int64 or words as str, one per sample."""
    accepted = f"{key} to be whole numbers or words"
    if array.ndim != 1 or array.dtype.kind not in "biuUST":
        _refuse(name, f"{accepted}, shape [samples], but it has shape {list(array.shape)} and type {array.dtype}")
    if array.dtype.kind in "biu":
        if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
            _refuse(name, f"{accepted} below 2^63, but it has {array.max()}")
        return array.astype(np.int64)
    try:
        return _with_letters(array.astype(np.str_))
    except (UnicodeError, ValueError, TypeError) as error:
        raise InputError(f"{name} is not accepted: expected {accepted}, but some are not ({error})") from error


def _with_letters(words: Array) -> Array:
    """Refuse letters that do not exist: numpy keeps any number of four bytes as one, which Python fails to read."""
    letters = np.dtype(np.uint32).newbyteorder(words.dtype.byteorder)
    largest = int(np.ascontiguousarray(words).view(letters).max(initial=0)) if words.dtype.itemsize else 0
    if largest > sys.maxunicode:
        raise ValueError(f"there is no letter 0x{largest:x}, the last one is 0x{sys.maxunicode:x}")
    return words


def _class_names(given: Any, name: str) -> list[str]:
    """Take the user's names of the classes, in the order of their numbers."""
    words = _values(given, "classes", name) if isinstance(given, np.ndarray) and given.dtype.kind == "U" else given
    words = words.tolist() if isinstance(words, np.ndarray) else words
    listed = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
    if not listed or len(words) < LEAST_CLASSES.get() or len(set(words)) < len(words):
        shown = f"{given!r:.100}" if listed else f"of type {type(given).__name__}"
        _refuse(name, f"classes to be two or more different words, but it is {shown}")
    return [str(word) for word in words]


def _number_classes(labels: dict[str, Array], names: list[str] | None, name: str) -> tuple[dict[str, Array], list[str]]:
    """Turn the labels `y` and `y_test` into numbers of classes: of those given, or of what is in `y`, sorted."""
    known = np.unique(labels["y"])
    if len(known) < LEAST_CLASSES.get():
        _refuse(name, f"at least two classes in y, but there is only {known.tolist()[0]!r:.100}")
    if names is not None:
        known = np.arange(len(names)) if known.dtype.kind == "i" else np.array(names)
    targets = {key: _positions(array, known, key, name) for key, array in labels.items()}
    return targets, [str(word) for word in known.tolist()] if names is None else names


def _positions(array: Array, known: Array, key: str, name: str) -> Array:
    """Return where in `known` each value stands, int64."""
    if array.dtype.kind != known.dtype.kind:
        kinds = {"i": "whole numbers", "U": "words"}
        _refuse(name, f"{key} to be {kinds[known.dtype.kind]}, as y is, but it is {kinds[array.dtype.kind]}")
    order = np.argsort(known)
    positions: Array = order[np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)]
    if (strange := known[positions] != array).any():
        shown = ", ".join(f"{word!r:.40}" for word in known[:20].tolist()) + (", ..." if len(known) > 20 else "")
        one = array[strange].tolist()[0]
        _refuse(name, f"{key} to be of the {len(known)} classes {shown}, but there is {one!r:.100}")
    return positions.astype(np.int64)


def _number_owners(given: dict[str, Array], name: str) -> tuple[dict[str, Array], list[str]]:
    """Turn owners into numbers; return these, and the names of all that occur, sorted."""
    if not given:
        return {}, []
    if len({array.dtype.kind for array in given.values()}) > 1:
        _refuse(name, f"{' and '.join(given)} to be all whole numbers or all words")
    names, numbers = np.unique(np.concatenate(list(given.values())), return_inverse=True)
    ends = np.cumsum([len(array) for array in given.values()])[:-1]
    owners = np.split(numbers.astype(np.int32), ends)
    return dict(zip(given, owners, strict=True)), [str(word) for word in names.tolist()]


# --------------------------------------------------------------------------------------------------------------------
# An .npz file. What it claims is looked at before anything is unpacked; nothing in it is run.

LONGEST_DIRECTORY = 2**20
"""Bytes in a zip file that say what is in it; as many are read at once."""

PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: MOST_INFLATED}
"""The two ways in which numpy packs, and how many bytes a packed one can become at most."""

LONGEST_HEADER = 10_000


class _Bounded(io.BufferedReader):
    """A file that gives at most a piece at a time, whatever length is claimed for what is in it."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(LONGEST_DIRECTORY + 1 if size is None or not 0 <= size <= LONGEST_DIRECTORY else size)
        if len(content) > LONGEST_DIRECTORY:
            raise zipfile.BadZipFile(f"its directory is longer than {LONGEST_DIRECTORY:,} bytes")
        return content


def find_npz(path: Path) -> DataFiles:
    """Find the arrays of a file, as `from_arrays` takes them; progress counts bytes."""
    regular_size(path, "an .npz file")
    return DataFiles([path], partial(_read_npz, path))


def _read_npz(path: Path, progress: ReadProgress) -> Decoded:
    try:
        with warnings.catch_warnings(), _Bounded(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            warnings.simplefilter("ignore")  # about headers that only look odd
            arrays = _unpacked(archive, path, progress)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # zip files and headers that are damaged fail in every way there is
        wrong(path, f"an undamaged .npz file ({' '.join(str(error).split())[:200]})")
    return from_arrays(arrays, str(path))


def _unpacked(archive: zipfile.ZipFile, path: Path, progress: ReadProgress) -> dict[str, Any]:
    """Unpack the arrays that are needed, if they fit into memory; the others are None."""
    arrays: dict[str, Any] = dict.fromkeys(info.filename.removesuffix(".npy") for info in archive.infolist())
    if len(arrays) < len(archive.infolist()):
        wrong(path, "every array once, but one occurs twice")
    members = {key: info for key, info in zip(arrays, archive.infolist(), strict=True) if key in KEYS}
    total, done = sum(info.file_size for info in members.values()), 0
    claims = [_claim(archive, key, info, path) for key, info in members.items()]
    if claims:
        most, arithmetic = max(claims)
        all_of_them = sum(claim for claim, _ in claims)
        check_room(path, all_of_them, f"{arithmetic} = {as_text(most)}, and all arrays together")
    for key, info in members.items():
        with archive.open(info) as member:
            arrays[key] = np.lib.format.read_array(member, allow_pickle=False)
            member.read(1)  # at the end, the checksum is compared
        done += info.file_size
        progress(done, total)
    return arrays


def _claim(archive: zipfile.ZipFile, key: str, info: zipfile.ZipInfo, path: Path) -> tuple[int, str]:
    """Read the header of an array; return the bytes of memory that reading it takes, and how they come about."""
    name = f"{info.filename!r:.100}"
    if not info.filename.endswith(".npy"):
        wrong(path, f"arrays (.npy) only, but there is {name}")
    if info.compress_type not in PACKED:
        wrong(path, f"arrays stored or deflated, but {name} is packed in another way")
    if info.file_size > info.compress_size * PACKED[info.compress_type]:
        wrong(path, f"possible sizes, but {name} claims {info.file_size:,} bytes out of {info.compress_size:,}")
    with archive.open(info) as member:
        file = io.BytesIO(member.read(LONGEST_HEADER))
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        wrong(path, f"numbers or words in {name}, but its format is {version}")
    shape, _, kind = headers[version](file)
    if kind.kind not in "biufcUS" or not kind.itemsize:
        wrong(path, f"numbers or words in {name}, but its type is {kind!s:.100}")
    size = file.tell() + math.prod(shape) * kind.itemsize
    if min(shape, default=1) < 0 or size != info.file_size:
        claimed = f"shape {list(shape)!s:.100} and type {kind}"
        wrong(path, f"{size:,} bytes in {name}, as it claims {claimed}, but it has {info.file_size:,}")
    if kind.kind in "US":
        more = 3 * (kind.itemsize if kind.kind == "U" else 4 * kind.itemsize)  # as words, sorted, compared
    elif key not in ("x", "x_test"):
        more = 40  # as numbers of classes or clients, sorted, compared, shuffled
    elif kind == np.uint8 and len(shape) > 2:
        more = 1
    else:
        more = 5 if kind == np.float32 else 9  # as float32, checked, shuffled
    sizes = " x ".join(f"{side:,}" for side in shape)
    about = f"{kind.itemsize + more} bytes ({kind.itemsize} in the file, {more} to convert and shuffle them)"
    return math.prod(shape) * (kind.itemsize + more), f"{key} takes {sizes} x {about}"


# --------------------------------------------------------------------------------------------------------------------
# The columns of a .csv file, found by their names, and the words in them.


@dataclass(frozen=True)
class Header:
    """The names in the first line of a table, each once."""

    path: Path
    names: list[str]

    def __str__(self) -> str:
        shown = ", ".join(repr(name[:40]) for name in self.names[:MOST_LISTED])
        return shown + (f" and {len(self.names) - MOST_LISTED} more" if len(self.names) > MOST_LISTED else "")

    def find(self, usual: Sequence[str], setting: str = "", named: str | None = None) -> int | None:
        """Find the column with one of the usual names, or the one that the user has named in a setting."""
        if named is not None:
            if named not in self.names:
                refuse(setting, named, f"a column of {self.path}, which are {self}")
            return self.names.index(named)
        found = [position for position, name in enumerate(self.names) if name.lower() in usual]
        if len(found) > 1:
            some = Header(self.path, [self.names[position] for position in found])
            say = f"say which with {setting}" if setting else "leave the others out"
            wrong(self.path, f"one column of {', '.join(usual)}, but there are {some}: {say}")
        return found[0] if found else None

    def word(self, row: list[str], column: int, line: int) -> str:
        """Return what stands in a column of a row, which may not be empty."""
        found = row[column].strip()
        if not found:
            wrong(self.path, f"a value in column {self.names[column]!r} of line {line}, but it is empty")
        return found

    def split(self, row: list[str], column: int, line: int) -> str:
        """Return the word in a column `split`."""
        found = self.word(row, column, line).lower()
        if found not in SPLITS:
            wrong(self.path, f"train or test in column 'split' of line {line}, but it is {found!r:.100}")
        return found


def read_table(path: Path, report: Callable[[int], None]) -> tuple[Header, Iterator[tuple[int, list[str]]]]:
    """Return the header of a table, and its rows with the numbers of their lines; `report` is told the bytes read."""
    lines = rows(path, report)
    names = [name.strip() for name in next(lines)[1]]
    if "" in names:
        wrong(path, f"a name for every column, but column {names.index('') + 1} has none")
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        wrong(path, f"every column name once, but {twice!r:.100} occurs {times} times")

    def of_one_width() -> Iterator[tuple[int, list[str]]]:
        for line, row, _ in lines:
            if len(row) != len(names):
                wrong(path, f"{len(names)} fields in line {line}, as in the first line, but it has {len(row)}")
            yield line, row

    return Header(path, names), of_one_width()


# --------------------------------------------------------------------------------------------------------------------
# A table: a .csv file, or a folder with train.csv and test.csv; .csv.gz is read too.

NUMBER, WORD, NEW_WORD = 13, 48, 200
"""Bytes of memory: for a number, 4 as it is read, 4 as it is divided into train and test, 4 as it is shuffled, 1 as it
is checked; for a word in a row, its number some times; for a word that is new, its place among all, beside itself."""

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class NamedColumns:
    """The columns that the user has named; None where the usual names are to be looked for."""

    label: str | None = None
    client: str | None = None

    @property
    def key(self) -> str:
        """Tell a table read with these columns from the same one read with others; empty if none is named."""
        named = repr((self.label, self.client)).encode()
        return "" if self == NamedColumns() else f"-{hashlib.sha256(named).hexdigest()[:8]}"


@dataclass
class _Words:
    """A column of words, kept as numbers in the order in which they first occur."""

    numbers: dict[str, int] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("q"))

    def add(self, word: str) -> int:
        """Add a row; return how many bytes it takes."""
        known = len(self.numbers)
        self.rows.append(self.numbers.setdefault(word, known))
        return WORD if len(self.numbers) == known else WORD + NEW_WORD + sys.getsizeof(word)

    def sorted(self) -> tuple[list[str], Array]:
        """Return the words in order, numerically if all are whole numbers, and each row's place among them."""
        whole = all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", word) for word in self.numbers)
        words = sorted(self.numbers, key=int) if whole else sorted(self.numbers)
        place = np.empty(len(words), np.int64)
        place[[self.numbers[word] for word in words]] = np.arange(len(words))
        return words, place[np.frombuffer(self.rows, dtype=np.int64)]


def find_csv(path: Path, named: NamedColumns = NamedColumns()) -> DataFiles:  # noqa: B008  # frozen
    """Find the table in a file, or in train and test of a folder; features are standardised, progress counts bytes."""
    if path.is_dir():
        files = []
        for split in SPLITS:
            both = (path / f"{split}.csv", path / f"{split}.csv.gz")
            files += [file for file in both if file.is_file()][:1]
            if not files or not files[-1].name.startswith(split):
                wrong(path, f"train.csv and test.csv (or .csv.gz) in it, but there is no {split}.csv")
    elif path.is_file():
        files = [path]
    else:
        wrong(path, "a .csv file, or a folder with train.csv and test.csv")
    if named.label is not None and named.label == named.client:
        refuse("client_column", named.client, f"another column than label_column={named.label!r}")
    return DataFiles(files, partial(_read_csv, path, files, named))


def _read_csv(path: Path, files: list[Path], named: NamedColumns, progress: ReadProgress) -> Decoded:
    report, sizes = every_hundredth(progress), [file.stat().st_size for file in files]
    table: _Table | None = None
    for number, file in enumerate(files):
        before = sum(sizes[:number])
        header, lines = read_table(file, lambda now, before=before: report(before + now, sum(sizes)))  # type: ignore[misc]
        if table is None:
            table = _Table(header, named)
        elif table.header.names != header.names:
            wrong(file, f"the same columns as in the file before, {Header(file, table.header.names)}")
        table.header = header
        if len(files) > 1 and table.split is not None:
            wrong(file, "no column 'split' where there are two files")
        table.add(lines, SPLITS[number] if len(files) > 1 else None)
    progress(sum(sizes), sum(sizes))
    assert table is not None
    return table.decoded(path, "split column" if table.split is not None else files[-1].name)


class _Table:
    """The rows read so far, of one file or of two, which column is which, and the memory that is taken."""

    def __init__(self, header: Header, named: NamedColumns) -> None:
        self.header, self.taken = header, 0
        # what the user has named is nothing else
        given = [name.lower() for name in (named.label, named.client) if name is not None]
        labels, owners, splits = (
            [name for name in usual if name not in given] for usual in (LABELS, OWNERS, ("split",))
        )
        label = header.find(labels, "label_column", named.label)
        self.owner = header.find(owners, "client_column", named.client)
        self.split = header.find(splits)
        if label is None:
            usual = f"{', '.join(LABELS[:-1])} or {LABELS[-1]}"
            wrong(header.path, f"a column {usual}, or another one named by label_column, but the columns are {header}")
        self.label, others = label, (label, self.owner, self.split)
        self.features = [column for column in range(len(header.names)) if column not in others]
        if not self.features:
            wrong(header.path, f"at least one column of numbers beside {header}")
        self.numbers = array("f")
        self.labels, self.owners, self.splits = _Words(), _Words(), _Words()

    def add(self, lines: Iterator[tuple[int, list[str]]], split: str | None) -> None:
        """Add the rows of a file, as long as they fit into memory; `split` says what they are for if no column does."""
        left, header, width = room(), self.header, len(self.features)
        for line, row in lines:
            self.numbers.extend(self._numbers(row, line))
            self.taken += NUMBER * width + self.labels.add(header.word(row, self.label, line))
            if self.owner is not None:
                self.taken += self.owners.add(header.word(row, self.owner, line))
            if self.split is not None or split is not None:
                self.taken += self.splits.add(split or header.split(row, self.split or 0, line))
            if not left.holds(self.taken):
                count = len(self.labels.rows)
                numbers = f"{NUMBER} x {count:,} x {width:,} bytes for numbers"
                words = f"{as_text(self.taken - NUMBER * count * width)} for words"
                taken = f"its first {count:,} rows take {numbers} + {words} = {as_text(self.taken)}"
                wrong(header.path, f"what fits into the {left.words}, but {taken}")

    def _numbers(self, row: list[str], line: int) -> list[float]:
        cells = [row[column] for column in self.features]
        try:
            numbers = list(map(float, cells))
            if all(-LARGEST <= number <= LARGEST for number in numbers) and "_" not in "".join(cells):
                return numbers
        except ValueError:
            pass
        column, cell = next(one for one in zip(self.features, cells, strict=True) if not _is_number(one[1]))
        where = f"column {self.header.names[column]!r:.100} of line {line}"
        owner = "if it is the owner of the sample, name it with client_column; convert other words to numbers first"
        hint = f": {owner}" if any(letter.isalpha() for letter in cell) else ""
        wrong(self.header.path, f"a finite number in {where}, but it is {cell!r:.100}{hint}")

    def decoded(self, path: Path, by: str) -> Decoded:
        """Divide all rows into train and test; `by` says what does so, if anything."""
        if not self.numbers:
            wrong(path, "rows below the names of the columns, but there are none")
        names = self.header.names
        features = [names[column] for column in self.features]
        (classes, labels), (owners, owner) = self.labels.sorted(), self.owners.sorted()
        if len(classes) < LEAST_CLASSES.get():
            wrong(path, f"at least two classes in column {names[self.label]!r}, but there is only {classes[0]!r:.100}")
        inputs = np.frombuffer(self.numbers, np.float32).reshape(-1, len(features))
        arrays: dict[str, Any] = {"x": inputs, "y": labels, **({"client": owner} if owners else {})}
        said = say_held_out("rows", "a column split with the words train and test")
        if self.splits.numbers:
            splits, number = self.splits.sorted()
            if len(splits) < 2:
                wrong(path, f"rows to train on and rows to test on, but all are for {splits[0]}")
            parts = (("", number == splits.index("train")), ("_test", number == splits.index("test")))
            arrays = {key + end: values[chosen] for key, values in arrays.items() for end, chosen in parts}
            absent = [classes[label] for label in np.setdiff1d(arrays["y_test"], arrays["y"])]
            if absent:
                only = "only classes in the test set that are in the training set"
                wrong(path, f"{only}, but there is {absent[0]!r:.100}")
            said = by
        decoded = from_arrays({**arrays, "classes": classes}, str(path))
        facts = {"columns": features, "label": names[self.label], "missing": "refused", "type": "float32"}
        about = {"test": said, "features": [printable(name) for name in features]}
        owned = tuple(map(printable, owners))
        return replace(decoded, owners=owned, standardise=True, about=about, raw_input={"kind": "table", **facts})


def _is_number(cell: str) -> bool:
    try:
        return "_" not in cell and -LARGEST <= float(cell) <= LARGEST
    except ValueError:
        return False


# --------------------------------------------------------------------------------------------------------------------
# The user's own function: "python:module:function".


def read_python(name: str) -> Decoded | Source:
    """Read what a function returns: arrays by key, (x, y), (x, y, x_test, y_test), or a Source."""
    function = import_function("data", name)
    called = f"{name.split(':')[1]}.{name.split(':')[2]}()"
    try:
        result = function()
    except (Exception, SystemExit) as error:
        raise failed("data", name, called, error) from error
    if isinstance(result, Source):
        return result
    if isinstance(result, (tuple, list)) and len(result) in (2, 4):
        result = dict(zip(("x", "y", "x_test", "y_test"), result, strict=False))
    if not isinstance(result, Mapping):
        size = f" of {len(result)}" if isinstance(result, (tuple, list)) else ""
        raise InputError(
            f"data={name!r} is not accepted: expected {called} to return arrays by key (x, y, x_test, y_test, client), "
            f"(x, y), (x, y, x_test, y_test) or a Source, but it returned a {type(result).__name__}{size}"
        )
    try:
        return with_moments(from_arrays(result, f"what {called} gives"))
    except InputError as error:
        raise InputError(f"data={name!r}: {error}") from error
    except Exception as error:
        raise failed("data", name, f"reading what {called} gives", error) from error
