"""CIFAR-10 and CIFAR-100 in the two layouts of their home page: binary records, or pickles, read as data only.

Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

A binary record is one label (CIFAR-100: the coarse one, then the fine one) and 1,024 bytes each of red, green and blue.
"""

from __future__ import annotations

import math
import pickletools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import FileLayout, check_room, find_files, read_bytes, regular_size, wrong
from smofi.data.formats.pictures import picture_input

# --------------------------------------------------------------------------------------------------------------------
# The stack and the memo on which a pickle's plain values are put together: every step small, no value twice.


MOST_STEPS = 500_000
MOST_CONTAINERS = 10_000
"""CIFAR-100's training file takes 200,000 steps and ten dicts, lists and tuples."""

MOST_ITEMS, MOST_KEYS, LONGEST_KEY = 16, 1000, 1000
"""In a tuple, in a dict, and in a key: what is looked at again and again is short, so that a step is a small one."""

MARK = object()
_SCALARS = (str, bytes, int, type(None))


class PickledArray:
    """An array whose content comes afterwards."""

    def __init__(self, content: Array | None = None) -> None:
        self.content = content


class PickleStack:
    """Values that are put into dicts, lists and tuples; `path` is the file that errors name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0
        self.opcode, self.position = "", 0

    def refuse(self, found: str) -> NoReturn:
        wrong(self.path, f"plain data, but at byte {self.position:,} ({self.opcode}) it has {found}")

    # ------------------------------------------------------------------------------------------------ stack and memo

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            self.refuse("nothing to take")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        self.refuse("no mark to go back to")

    def plain(self, value: Any) -> Any:
        """A value that may go into a dict or a list, or come out as the result."""
        if isinstance(value, PickledArray):
            value = value.content
            if value is None:
                self.refuse("an array without content")
        elif isinstance(value, tuple):
            if not all(isinstance(item, _SCALARS) for item in value):
                self.refuse("a tuple of more than numbers and text")
        elif not isinstance(value, (*_SCALARS, list, dict)):
            self.refuse("a name where a value should be")
        return value

    def push(self, value: Any) -> None:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.refuse("a number of more than 64 bits")
        self.stack.append(bytes(value) if isinstance(value, bytearray) else value)

    def push_container(self, value: list[Any] | dict[Any, Any] | tuple[Any, ...]) -> None:
        self.containers += 1
        if self.containers > MOST_CONTAINERS:
            self.refuse(f"more than {MOST_CONTAINERS:,} dicts, lists and tuples")
        self.stack.append(value)

    def put(self, argument: Any) -> None:
        value = self.pop()
        self.stack.append(value)
        place = len(self.memo) if argument is None else argument
        if not 0 <= place <= MOST_STEPS:  # numbers that a dict keeps apart at once
            self.refuse("a place in the memo that no step can have made")
        self.memo[place] = value

    def get(self, argument: Any) -> None:
        value = self.memo.get(argument, MARK)
        if value is MARK:
            self.refuse("a reference to nothing")
        # What is referred to again could contain itself, or itself twice, and that again: only simple values may.
        nested = isinstance(value, tuple) and not all(isinstance(item, _SCALARS) for item in value)
        if nested or isinstance(value, (list, dict)):
            self.refuse("a reference to a dict, a list or a nested tuple")
        self.stack.append(value)

    # ---------------------------------------------------------------------------------------------------- containers

    def append(self, items: list[Any]) -> None:
        target = self.pop()
        if not isinstance(target, list):
            self.refuse("items for something that is not a list")
        target.extend(self.plain(item) for item in items)
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        target = self.pop()
        if not isinstance(target, dict) or len(items) % 2:
            self.refuse("keys and values for something that is not a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                self.refuse("a key that is neither text nor a number")
            if not isinstance(key, int) and len(key) > LONGEST_KEY:
                self.refuse(f"a key of more than {LONGEST_KEY:,} letters")
            target[key] = self.plain(value)
            if len(target) > MOST_KEYS:
                self.refuse(f"a dict of more than {MOST_KEYS:,} keys")
        self.stack.append(target)

    def make_tuple(self, items: list[Any]) -> None:
        if len(items) > MOST_ITEMS:
            self.refuse(f"a tuple of more than {MOST_ITEMS} items")
        self.push_container(tuple(items))

    def pop_some(self, size: int) -> list[Any]:
        return [self.pop() for _ in range(size)][::-1]

    def make_dict(self) -> None:
        items = self.pop_to_mark()
        self.push_container({})
        self.set_items(items)

    def make_list(self) -> None:
        items = self.pop_to_mark()
        self.push_container([])
        self.append(items)


# --------------------------------------------------------------------------------------------------------------------
# Pickles of plain data, read without ever calling anything: an interpreter that knows no other values.

NAMES = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy.core.numeric _frombuffer": "buffer",
    "numpy._core.numeric _frombuffer": "buffer",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}
TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")


class _Name:
    """A name of the file; a word, nothing to call."""

    def __init__(self, word: str) -> None:
        self.word = word


class _Type:
    """The type of an array's items, whose byte order comes afterwards."""

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "|"


def read_plain_pickle(content: bytes, path: Path) -> Any:
    r"""What a pickle contains, if that is plain data; `path` is the file that errors name.

    >>> read_plain_pickle(b"\x80\x02}U\x01aK\x01s.", Path("good"))
    {'a': 1}
    >>> read_plain_pickle(b"cos\nsystem\n(S'ls'\ntR.", Path("it"))
    Traceback (most recent call last):
    smofi.errors.InputError: it is not accepted: expected plain data, but at byte 0 (GLOBAL) it has the name 'os system'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a strange escape in an old string
        return _Reader(content, path).read()


class _Reader(PickleStack):
    """One pickle, opcode by opcode."""

    def __init__(self, content: bytes, path: Path) -> None:
        super().__init__(path)
        self.content = content
        self.encoded = 0

    def read(self) -> Any:
        operations = pickletools.genops(self.content)
        for _ in range(MOST_STEPS):
            try:
                opcode, argument, position = next(operations)
            except ValueError as error:
                wrong(self.path, f"a pickle, but after byte {self.position:,} it is broken ({str(error)[:100]})")
            self.opcode, self.position = opcode.name, position or 0
            if self.opcode == "STOP":
                break
            _OPERATIONS.get(self.opcode, _Reader.unknown)(self, argument)
        else:
            self.refuse(f"more than {MOST_STEPS:,} steps")
        result = self.plain(self.pop())
        if self.stack:
            self.refuse("an end before all values are used")
        return result

    def unknown(self, argument: Any) -> NoReturn:
        self.refuse("something that is not plain data")

    def name(self, text: Any) -> None:
        if text not in NAMES:
            self.refuse(f"the name {str(text)[:100]!r}")
        self.stack.append(_Name(NAMES[text]))

    def stack_name(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            self.refuse("a name that is not text")
        self.name(f"{module} {name}")

    def reduce(self) -> None:
        """The things that may be made from a name and arguments."""
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            self.refuse("something to call")
        match (name.word, *arguments):
            case ("encode", str() as text, "latin1" | "latin-1"):
                self.stack.append(self.encode(text))
            case ("dtype", str() as code, _, _) if len(code) <= 3 and code.lstrip("|<") in TYPES:
                self.stack.append(_Type(code.lstrip("|<")))
            case ("array", _Name(word="ndarray"), (0,), b"b" | "b"):
                self.stack.append(PickledArray())
            case ("buffer", bytes() as raw, _Type() as kind, tuple() as shape, "C" | "F" as order):
                self.stack.append(PickledArray(self.array(raw, kind, shape, order)))
            case _:
                self.refuse(f"{name.word!r} with arguments that no plain array has")

    def build(self) -> None:
        """What comes afterwards about a type or an array."""
        state, target = self.pop(), self.pop()
        match (target, state):
            case (_Type(), (3, "|" | "<" | ">" as order, None, None, None, -1, -1, 0)):
                target.order = order
            case (
                PickledArray(content=None),
                (1, tuple() as shape, _Type() as kind, 0 | 1 as columns, str() | bytes() as raw),
            ):
                raw = self.encode(raw) if isinstance(raw, str) else raw
                target.content = self.array(raw, kind, shape, "F" if columns else "C")
            case _:
                self.refuse("the state of something that is not a plain array")
        self.stack.append(target)

    def encode(self, text: str) -> bytes:
        # Together no more than the file: a text is encoded once, and referred to after that.
        self.encoded += len(text)
        if self.encoded > len(self.content):
            self.refuse("more bytes than the file")
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError:
            self.refuse("text where bytes should be")

    def array(self, raw: bytes, kind: _Type, shape: tuple[Any, ...], order: Any) -> Array:
        if not 1 <= len(shape) <= 4 or not all(type(size) is int and size > 0 for size in shape):
            self.refuse("an array without a shape of one to four sizes")
        dtype = np.dtype(kind.order + kind.code)
        if math.prod(shape) * dtype.itemsize != len(raw):
            self.refuse(f"an array of shape {shape} and type {dtype.name} in {len(raw):,} bytes")
        return np.frombuffer(raw, dtype).reshape(shape, order=order)


_Operation: TypeAlias = Callable[[_Reader, Any], None]

_VALUES = (
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BYTEARRAY8 UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8"
)
_OPERATIONS: dict[str, _Operation] = {
    **dict.fromkeys(_VALUES.split(), _Reader.push),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Reader.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Reader.get),
    **dict.fromkeys(("PROTO", "FRAME"), lambda reader, _: None),
    "NONE": lambda reader, _: reader.push(None),
    "NEWTRUE": lambda reader, _: reader.push(True),
    "NEWFALSE": lambda reader, _: reader.push(False),
    "MARK": lambda reader, _: reader.stack.append(MARK),
    "EMPTY_DICT": lambda reader, _: reader.push_container({}),
    "EMPTY_LIST": lambda reader, _: reader.push_container([]),
    "EMPTY_TUPLE": lambda reader, _: reader.push_container(()),
    "DICT": lambda reader, _: reader.make_dict(),
    "LIST": lambda reader, _: reader.make_list(),
    "TUPLE": lambda reader, _: reader.make_tuple(reader.pop_to_mark()),
    "TUPLE1": lambda reader, _: reader.make_tuple(reader.pop_some(1)),
    "TUPLE2": lambda reader, _: reader.make_tuple(reader.pop_some(2)),
    "TUPLE3": lambda reader, _: reader.make_tuple(reader.pop_some(3)),
    "APPEND": lambda reader, _: reader.append([reader.pop()]),
    "APPENDS": lambda reader, _: reader.append(reader.pop_to_mark()),
    "SETITEM": lambda reader, _: reader.set_items(reader.pop_some(2)),
    "SETITEMS": lambda reader, _: reader.set_items(reader.pop_to_mark()),
    "GLOBAL": lambda reader, text: reader.name(text),
    "STACK_GLOBAL": lambda reader, _: reader.stack_name(),
    "REDUCE": lambda reader, _: reader.reduce(),
    "BUILD": lambda reader, _: reader.build(),
}


# --------------------------------------------------------------------------------------------------------------------
# CIFAR-10 and CIFAR-100 in the two layouts of their home page: binary records, or pickles, read as data only.

PIXELS = 3 * 32 * 32
MOST_RECORDS = 200_000
"""In one file; the largest official one has 50,000."""

MOST_BYTES = MOST_RECORDS * (PIXELS + 100)


@dataclass(frozen=True)
class _Kind:
    """One of the two data sets: how many labels a binary record begins with, and what pickles call things."""

    label_sizes: dict[str, int]
    names: str
    binary: FileLayout
    pickled: FileLayout

    @property
    def classes(self) -> int:
        return list(self.label_sizes.values())[-1]


def _layout(place: str, *names: str) -> FileLayout:
    return (place,), [(name,) for name in names]


# Training files, the test file, class names; the last label is the target.
_TEN = _Kind(
    label_sizes={"labels": 10},
    names="label_names",
    binary=_layout(
        "cifar-10-batches-bin", *(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin", "batches.meta.txt"
    ),
    pickled=_layout("cifar-10-batches-py", *(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"),
)
_HUNDRED = _Kind(
    label_sizes={"coarse_labels": 20, "fine_labels": 100},
    names="fine_label_names",
    binary=_layout("cifar-100-binary", "train.bin", "test.bin", "fine_label_names.txt"),
    pickled=_layout("cifar-100-python", "train", "test", "meta"),
)


def find_cifar10(folder: Path) -> DataFiles:
    """CIFAR-10: `[samples, 32, 32, 3]`, in the official order, which is a random one.

    Five training files, the test file and the names of the classes; binary ones if both layouts are there.

    >>> find_cifar10(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    return _find(folder, _TEN)


def find_cifar100(folder: Path) -> DataFiles:
    """CIFAR-100 with its fine labels: `[samples, 32, 32, 3]`, in the official order, which is a random one.

    The training file, the test file and the names of the classes; binary ones if both layouts are there.

    >>> find_cifar100(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    return _find(folder, _HUNDRED)


def _find(folder: Path, kind: _Kind) -> DataFiles:
    files = find_files(folder, [kind.binary, kind.pickled])
    return DataFiles(files, partial(_read, files, kind))


def _read(files: list[Path], kind: _Kind, progress: ReadProgress) -> Decoded:
    *batches, meta = files
    binary = meta.suffix == ".txt"
    names = _names_in_text(meta) if binary else _names_in_pickle(meta, kind)
    if len(names) != kind.classes or len(set(names)) != len(names):
        wrong(meta, f"{kind.classes} names of classes, no two the same, but it has {len(names)}")
    sizes = [min(regular_size(path, "a file of pictures"), MOST_BYTES) for path in batches]
    size, times = sum(sizes), 2 if binary else 4
    check_room(meta.parent, times * size, f"reading {size:,} bytes of pictures takes {times} x as much")
    read = _read_binary if binary else _read_pickle
    images, labels = [], []
    for number, path in enumerate(batches, start=1):
        planes, targets = read(path, kind)
        images.append(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
        labels.append(targets)
        progress(number, len(batches))
    train = Split(np.concatenate(images[:-1]), np.concatenate(labels[:-1]))
    raw_input = picture_input(train.inputs.shape[1:])
    return Decoded("image", train, Split(images[-1], labels[-1]), tuple(names), raw_input=raw_input)


def _read_binary(path: Path, kind: _Kind) -> tuple[Array, Array]:
    before = len(kind.label_sizes)
    record = before + PIXELS
    content = read_bytes(path, MOST_RECORDS * record, f"records of {record:,} bytes")
    if not content or len(content) % record:
        wrong(path, f"whole records of {record:,} bytes, but it has {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    targets = [_targets(path, records[:, k], *item) for k, item in enumerate(kind.label_sizes.items())]
    return records[:, before:], targets[-1]


def _read_pickle(path: Path, kind: _Kind) -> tuple[Array, Array]:
    batch = _dict_in_pickle(path)
    planes = batch.get("data")
    if not isinstance(planes, np.ndarray) or planes.dtype != np.uint8 or planes.ndim != 2 or planes.shape[1] != PIXELS:
        wrong(path, f"under 'data' bytes of shape [samples, {PIXELS}]")
    if len(planes) > MOST_RECORDS:
        wrong(path, f"at most {MOST_RECORDS:,} samples, but it has {len(planes):,}")
    targets = [_targets(path, batch.get(name), name, classes) for name, classes in kind.label_sizes.items()]
    if any(len(some) != len(planes) for some in targets):
        wrong(path, f"{len(planes):,} labels, as many as pictures, but it has {len(targets[-1]):,}")
    return planes, targets[-1]


def _targets(path: Path, labels: Any, name: str, classes: int) -> Array:
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        labels = np.array(labels, np.int64)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1:
        wrong(path, f"under {name!r} a list of whole numbers")
    if (outside := (labels < 0) | (labels >= classes)).any():
        where = int(outside.argmax())
        wrong(path, f"{name} from 0 to {classes - 1}, but that of sample {where:,} is {int(labels[where])}")
    return labels.astype(np.int64)


def _names_in_text(path: Path) -> list[str]:
    try:
        text = read_bytes(path, 100_000, "a name of a class per line").decode()
    except UnicodeDecodeError:
        wrong(path, "a name of a class per line, in UTF-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _names_in_pickle(path: Path, kind: _Kind) -> Sequence[str]:
    names = _dict_in_pickle(path).get(kind.names)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        wrong(path, f"under {kind.names!r} a list of names")
    return names


def _dict_in_pickle(path: Path) -> dict[str, Any]:
    found = read_plain_pickle(read_bytes(path, MOST_BYTES, "a pickle"), path)
    if not isinstance(found, dict):
        wrong(path, f"a pickled dict, but it contains a {type(found).__name__}")
    # Written by Python 2 and once loaded as bytes, keys are bytes.
    return {key.decode("latin-1") if isinstance(key, bytes) else str(key): value for key, value in found.items()}
