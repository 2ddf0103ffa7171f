"""The header of a message: strict JSON, of which every field is checked before anything is done with it.

    {"kind": "activation", "fields": {"step": 3}, "tensors": [["x", "float32", [32, 8, 4, 4], [0, 2, 3, 1], "int8"]]}

A tensor is listed with its name, type, shape, the order of its dimensions in memory (null: as they are), and the
compression it is packed with (null: none).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.errors import InputError, shown

LONGEST_HEADER = 64 * 1024
MOST_FIELDS, MOST_TENSORS, MOST_VALUES, MOST_DIMENSIONS, DEEPEST = 256, 1024, 16_384, 8, 4
LARGEST_WHOLE, LARGEST_TENSOR = 2**63 - 1, 2**40
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FLOATS = DTYPES[:4]

_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_TENSOR = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)

Listed = tuple[str, str, tuple[int, ...], tuple[int, ...], str | None]
"""A tensor in a header: name, type, shape, order, compression."""


class BadFrame(InputError):
    """A message that is not accepted: `field` says which part of it, the sentence why.

    >>> raise BadFrame("tensors.x.shape", "has 9 dimensions: expected at most 8")
    Traceback (most recent call last):
    smofi.net.header.BadFrame: tensors.x.shape has 9 dimensions: expected at most 8
    """

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field} {sentence}")
        self.field = field


def reject(field: str, value: Any, accepted: str) -> NoReturn:
    """Refuse a value of a message."""
    raise BadFrame(field, f"is {shown(value)}: expected {accepted}")


# ------------------------------------------------------------------------------------------------------------ as bytes


def write_header(kind: str, fields: dict[str, Any], tensors: list[Listed]) -> bytes:
    """The header as bytes, with no value that `read_header` refuses.

    >>> write_header("ready", {"step": 3}, [])
    b'{"kind":"ready","fields":{"step":3},"tensors":[]}'
    """
    check_message(kind, fields)
    listed = [
        [name, dtype, list(shape), None if order == tuple(range(len(shape))) else list(order), packing]
        for name, dtype, shape, order, packing in tensors
    ]
    check_tensors(listed)
    made = {"kind": kind, "fields": fields, "tensors": listed}
    header = _encoder.encode(made).encode()
    if len(header) > LONGEST_HEADER:
        raise BadFrame("header", f"has {len(header)} bytes: expected at most {LONGEST_HEADER}")
    return header


def read_header(header: bytes) -> tuple[str, dict[str, Any], list[Listed]]:
    """The kind, the fields and the tensors that a header lists.

    >>> read_header(b'{"kind":"ready","fields":{"step":3},"tensors":[]}')
    ('ready', {'step': 3}, [])
    """
    try:
        found = _decoder.decode(header.decode("utf-8"))
    except BadFrame:
        raise
    except (ValueError, RecursionError):  # no UTF-8, no JSON, or lists in lists without end
        raise BadFrame("header", "is not JSON: expected an object with kind, fields and tensors") from None
    _check_depth(found)
    if type(found) is not dict or found.keys() != {"kind", "fields", "tensors"}:
        raise BadFrame("header", "is not a message: expected an object with kind, fields and tensors, and no more")
    check_message(found["kind"], found["fields"])
    return found["kind"], found["fields"], check_tensors(found["tensors"])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BadFrame("header", "has a name twice: expected each name once")
    return made


def _whole(text: str) -> int:
    if len(text) > 20 or abs(number := int(text)) > LARGEST_WHOLE:
        raise BadFrame("header", f"has a whole number of {len(text)} digits: expected at most {LARGEST_WHOLE}")
    return number


def _float(text: str) -> float:
    if len(text) > 32 or math.isinf(number := float(text)):
        _constant(text[:32])
    return number


def _constant(text: str) -> NoReturn:
    raise BadFrame("header", f"has the number {text}: expected finite numbers of at most 32 characters")


def _check_depth(found: Any) -> None:
    """Refuse lists in lists, level by level, so that no later check recurses far."""
    level = [found]
    for _ in range(DEEPEST + 4):
        level = [
            item for one in level if type(one) in (list, dict) for item in (one.values() if type(one) is dict else one)
        ]
    if level:
        raise BadFrame("header", f"has lists in lists: expected at most {DEEPEST} levels in a field")


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_float=_float, parse_constant=_constant)


# -------------------------------------------------------------------------------------------------------------- checks


def check_message(kind: Any, fields: Any) -> None:
    """Refuse a kind or fields that a message cannot have."""
    if type(kind) is not str or not _KIND.fullmatch(kind):
        reject("kind", kind, "a word of at most 32 lower-case letters, digits and underscores")
    if type(fields) is not dict or len(fields) > MOST_FIELDS:
        reject("fields", fields, f"an object with at most {MOST_FIELDS} names")
    left = MOST_VALUES
    for name, value in fields.items():
        if type(name) is not str or not _FIELD.fullmatch(name):
            reject("fields", name, "names of at most 64 lower-case letters, digits and underscores")
        left = _check_value(f"fields.{name}", value, left - 1, DEEPEST)


def _check_value(field: str, value: Any, left: int, deep: int) -> int:
    """Refuse what is not a plain value, or a list of them; returns how many more values a message may have."""
    if type(value) is list:
        if not deep:
            raise BadFrame(field, f"has lists in lists: expected at most {DEEPEST} levels")
        left -= len(value)
        if left < 0:
            raise BadFrame(field, f"has too many values: expected at most {MOST_VALUES} in a message")
        for item in value:
            left = _check_value(field, item, left, deep - 1)
    elif type(value) is float:
        if not math.isfinite(value):
            reject(field, value, "a finite number")
    elif type(value) is int:
        if abs(value) > LARGEST_WHOLE:
            reject(field, value, f"a whole number of at most {LARGEST_WHOLE}")
    elif type(value) is str:
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise BadFrame(field, "has a lone surrogate: expected text that can be written as UTF-8")
    elif value is not None and type(value) is not bool:
        reject(field, value, "a number, a string, true, false, null, or a list of these")
    return left


def check_tensors(tensors: Any) -> list[Listed]:
    """The tensors that a message lists, each as a tuple; or a refusal."""
    if type(tensors) is not list or len(tensors) > MOST_TENSORS:
        reject("tensors", tensors, f"a list of at most {MOST_TENSORS} tensors")
    found = [_check_tensor(one) for one in tensors]
    if len({one[0] for one in found}) < len(found):
        raise BadFrame("tensors", "has a name twice: expected each name once")
    return found


def _check_tensor(listed: Any) -> Listed:
    if type(listed) is not list or len(listed) != 5:
        reject("tensors", listed, "lists of name, type, shape, order and compression")
    name, dtype, shape, order, packing = listed
    if type(name) is not str or not _TENSOR.fullmatch(name):
        reject("tensors", name, "names of at most 128 letters, digits, dots, dashes and underscores")
    field = f"tensors.{name}"
    if type(dtype) is not str or dtype not in DTYPES:
        reject(f"{field}.dtype", dtype, "one of " + ", ".join(DTYPES))
    if type(shape) is not list or len(shape) > MOST_DIMENSIONS:
        reject(f"{field}.shape", shape, f"a list of at most {MOST_DIMENSIONS} numbers")
    # the product without zeros, too: torch computes strides with it
    if any(type(size) is not int or size < 0 for size in shape) or math.prod(filter(None, shape)) > LARGEST_TENSOR:
        reject(f"{field}.shape", shape, f"whole numbers >= 0, whose product is at most {LARGEST_TENSOR}")
    if order is None:
        order = list(range(len(shape)))
    elif type(order) is not list or any(type(one) is not int for one in order) or sorted(order) != [*range(len(shape))]:
        reject(f"{field}.order", order, f"each of the {len(shape)} dimensions once, or null")
    if packing is not None and (type(packing) is not str or packing not in COMPRESSIONS or dtype not in FLOATS):
        reject(f"{field}.packing", packing, "null, or of a floating-point type one of " + ", ".join(COMPRESSIONS))
    return name, dtype, tuple(shape), tuple(order), packing
