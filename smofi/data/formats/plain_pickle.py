"""Pickles that hold plain data, read without ever calling anything: an interpreter that knows no other values.

Opcodes come from `pickletools.genops`, which only cuts the file into pieces. A name in the file is compared with the
few of `NAMES`, and stands for a word from then on, never for what a module keeps under that name. What comes out is
dict, list, tuple, str, bytes, int, bool, None and numpy arrays of whole numbers; the rest is refused.
"""

from __future__ import annotations

import math
import pickletools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from smofi.data.decoded import Array
from smofi.data.formats.files import wrong

MOST_STEPS = 500_000
MOST_CONTAINERS = 10_000
"""CIFAR-100's training file takes 200,000 steps and ten dicts, lists and tuples."""

MOST_ITEMS, MOST_KEYS, LONGEST_KEY = 16, 1000, 1000
"""In a tuple, in a dict, and in a key: what is looked at again and again is short, so that a step is a small one."""

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
    """The type of an array's items, of which the byte order is told afterwards."""

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "|"


class _Array:
    """An array, of which the content is told afterwards."""

    def __init__(self, content: Array | None = None) -> None:
        self.content = content


_MARK = object()
_SCALARS = (str, bytes, int, type(None))


def read_plain_pickle(content: bytes, path: Path) -> Any:
    r"""What a pickle holds, if that is plain data; `path` is what an error names.

    >>> read_plain_pickle(b"\x80\x02}U\x01aK\x01s.", Path("good"))
    {'a': 1}
    >>> read_plain_pickle(b"cos\nsystem\n(S'ls'\ntR.", Path("it"))
    Traceback (most recent call last):
    smofi.errors.InputError: it is not accepted: expected plain data, and at byte 0 (GLOBAL) it has the name 'os system'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a strange escape in an old string
        return _Reader(content, path).read()


class _Reader:
    """The stack and the memo of one pickle."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path = content, path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0
        self.encoded = 0
        self.opcode, self.position = "", 0

    def read(self) -> Any:
        operations = pickletools.genops(self.content)
        for _ in range(MOST_STEPS):
            try:
                opcode, argument, position = next(operations)
            except ValueError as error:
                wrong(self.path, f"a pickle, and after byte {self.position:,} it is broken ({str(error)[:100]})")
            self.opcode, self.position = opcode.name, position or 0
            if self.opcode == "STOP":
                break
            _OPERATIONS.get(self.opcode, _Reader.unknown)(self, argument)
        else:
            self.refuse(f"more than {MOST_STEPS:,} steps")
        result = self.plain(self.pop())
        if self.stack:
            self.refuse("an end before everything is in its place")
        return result

    def refuse(self, found: str) -> NoReturn:
        wrong(self.path, f"plain data, and at byte {self.position:,} ({self.opcode}) it has {found}")

    def unknown(self, argument: Any) -> NoReturn:
        self.refuse("something that is no plain data")

    # ------------------------------------------------------------------------------------------------ stack and memo

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            self.refuse("nothing to take")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is _MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        self.refuse("no mark to go back to")

    def plain(self, value: Any) -> Any:
        """A value that may go into a dict or a list, or come out as the result."""
        if isinstance(value, _Array):
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
        value = self.memo.get(argument, _MARK)
        if value is _MARK:
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
            self.refuse("items for something that is no list")
        target.extend(self.plain(item) for item in items)
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        target = self.pop()
        if not isinstance(target, dict) or len(items) % 2:
            self.refuse("keys and values for something that is no dict")
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

    # -------------------------------------------------------------------------------------------------------- arrays

    def name(self, text: Any) -> None:
        if text not in NAMES:
            self.refuse(f"the name {str(text)[:100]!r}")
        self.stack.append(_Name(NAMES[text]))

    def stack_name(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            self.refuse("a name that is no text")
        self.name(f"{module} {name}")

    def reduce(self) -> None:
        """The few things that are made from a name and arguments."""
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            self.refuse("something to call")
        match (name.word, *arguments):
            case ("encode", str() as text, "latin1" | "latin-1"):
                self.stack.append(self.encode(text))
            case ("dtype", str() as code, _, _) if len(code) <= 3 and code.lstrip("|<") in TYPES:
                self.stack.append(_Type(code.lstrip("|<")))
            case ("array", _Name(word="ndarray"), (0,), b"b" | "b"):
                self.stack.append(_Array())
            case ("buffer", bytes() as raw, _Type() as kind, tuple() as shape, "C" | "F" as order):
                self.stack.append(_Array(self.array(raw, kind, shape, order)))
            case _:
                self.refuse(f"{name.word!r} with arguments that no plain array has")

    def build(self) -> None:
        """What is told afterwards about a type or an array."""
        state, target = self.pop(), self.pop()
        match (target, state):
            case (_Type(), (3, "|" | "<" | ">" as order, None, None, None, -1, -1, 0)):
                target.order = order
            case (
                _Array(content=None),
                (1, tuple() as shape, _Type() as kind, 0 | 1 as columns, str() | bytes() as raw),
            ):
                raw = self.encode(raw) if isinstance(raw, str) else raw
                target.content = self.array(raw, kind, shape, "F" if columns else "C")
            case _:
                self.refuse("the state of something that is no plain array")
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
    "MARK": lambda reader, _: reader.stack.append(_MARK),
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
