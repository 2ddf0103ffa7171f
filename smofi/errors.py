"""What can go wrong, as sentences: every refusal names the field, the value and what would be accepted."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NoReturn

from pydantic import ByteSize, TypeAdapter, ValidationError

LONGEST = 300
"""How much of a refused value is shown."""

_SIZE = TypeAdapter(ByteSize)


class SmofiError(ValueError):
    """Anything a user can correct. The CLI prints its sentence and exits with code 2."""


class InputError(SmofiError):
    """A parameter, a data set or a file that cannot be used."""


class CompositionError(SmofiError):
    """Two methods that cannot work together."""


class ClientError(SmofiError):
    """A client whose data or model failed in the middle of a round."""


class TrainingWarning(UserWarning):
    """A run that goes on, but probably not as its user wants it to."""


class CacheWarning(UserWarning):
    """Cached data that was damaged: it is not used, but made anew."""


def refuse(field: str, value: Any, accepted: str) -> NoReturn:
    """Raise the standard refusal.

    >>> refuse("mu", -1, "a number >= 0")
    Traceback (most recent call last):
    smofi.errors.InputError: mu=-1 is not accepted: expected a number >= 0
    """
    shown = repr(value) if len(repr(value)) <= LONGEST else f"{repr(value)[:LONGEST]}..."
    raise InputError(f"{field}={shown} is not accepted: expected {accepted}")


def check_number(
    field: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
    below: float | None = None,
    infinite: bool = False,
) -> float:
    """A real number in [low, high], strictly over `above`, strictly under `below`; finite unless `infinite`."""
    limits = [(">=", low), (">", above), ("<=", high), ("<", below)]
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if limit is not None and not math.isinf(limit)]
    accepted = "a number " + " and ".join(bounds) if bounds else "a finite number"
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(field, value, accepted)
    try:
        number = float(value)
    except OverflowError:
        refuse(field, value, accepted)
    inside = low <= number <= high and (above is None or number > above) and (below is None or number < below)
    if not inside or (math.isinf(number) and not infinite):
        refuse(field, value, accepted)
    return number


def check_count(field: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """A whole number in [low, high]."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        refuse(field, value, f"a whole number >= {low}" + (f" and <= {high}" if high is not None else ""))
    return int(value)


def check_flag(field: str, value: Any) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        refuse(field, value, "True or False")
    return value


def check_choice(field: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words, with a suggestion for a near miss."""
    options = list(options)
    if value not in options:
        near = difflib.get_close_matches(str(value), options, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        refuse(field, value, "one of " + ", ".join(options) + hint)
    return str(value)


def check_size(field: str, value: Any) -> int:
    """A number of bytes, also as people write it.

    >>> check_size("memory_limit", "1.5GB"), check_size("memory_limit", 4096), check_size("memory_limit", "2Gi")
    (1500000000, 4096, 2147483648)
    """
    text = str(value).strip()
    # Pydantic itself would take a minus sign, 1_000 and anything that follows the unit.
    if not isinstance(value, bool) and re.fullmatch(r"\d+(\.\d+)?\s*[a-zA-Z]*", text):
        try:
            return int(_SIZE.validate_python(text + "B" if text[-1] in "iI" else text))
        except (ValidationError, OverflowError):
            pass
    refuse(field, value, "a number of bytes, or a size such as 500MB, 2GB or 1.5GiB")
