"""Pickles of plain data, read without ever calling anything: an interpreter that knows no other values.

Opcodes come from `pickletools.genops`, which only cuts the file into pieces. A name in the file is compared with
`NAMES`, and stands for a word from then on, never for what a module keeps under that name. What comes out is
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
from smofi.data.formats.pickle_stack import MARK, MOST_STEPS, PickledArray, PickleStack

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
