"""A user's own function that gives data: "python:module:function"."""

from __future__ import annotations

from collections.abc import Mapping

from smofi.data.cache import with_moments
from smofi.data.decoded import Decoded
from smofi.data.formats.arrays import from_arrays
from smofi.data.source import Source
from smofi.errors import InputError
from smofi.imported import failed, import_function

IN_ORDER = ("x", "y", "x_test", "y_test")


def read_python(name: str) -> Decoded | Source:
    """What the function returns: arrays by key as `from_arrays` takes them, (x, y), (x, y, x_test, y_test), or a
    Source.

    >>> read_python("python:math:sqrt")
    Traceback (most recent call last):
    smofi.errors.InputError: data='python:math:sqrt' is not accepted: math.sqrt() failed with TypeError: \
math.sqrt() takes exactly one argument (0 given)
    """
    function = import_function("data", name)
    called = f"{name.split(':')[1]}.{name.split(':')[2]}()"
    try:
        result = function()
    except (Exception, SystemExit) as error:
        raise failed("data", name, called, error) from error
    if isinstance(result, Source):
        return result
    if isinstance(result, (tuple, list)) and len(result) in (2, 4):
        result = dict(zip(IN_ORDER, result, strict=False))
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
