"""What can go wrong, as sentences: every refusal names the field, the value and what would be accepted."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, NoReturn

LONGEST = 300
"""How much of a refused value is shown."""

LARGEST_COUNT, LARGEST_SEED = 2**63 - 1, 2**128 - 1
"""The largest whole number that torch and numpy can count to; seeds may be longer, but can be written."""


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


class DataWarning(UserWarning):
    """Data that is used, but may not be what its user takes it for."""


class CacheWarning(UserWarning):
    """Cached data that was damaged: it is not used, but made anew."""


def refuse(field: str, value: Any, accepted: str) -> NoReturn:
    """Raise the standard refusal.

    >>> refuse("mu", -1, "a number >= 0")
    Traceback (most recent call last):
    smofi.errors.InputError: mu=-1 is not accepted: expected a number >= 0
    """
    raise InputError(f"{field}={shown(value)} is not accepted: expected {accepted}")


def refuse_unwanted(field: str, value: Any, why: str) -> NoReturn:
    """Refuse a value where none has a place."""
    raise InputError(f"{field}={shown(value)} is not accepted: {why}")


def shown(value: Any) -> str:
    """Show a refused value in a sentence: cut off where it is too long; of data and models, what they are.

    >>> shown("round"), len(shown("9" * 1000)), shown(10**5000)
    ("'round'", 303, 'a whole number of more than 4000 digits')
    >>> import torch
    >>> shown([torch.zeros(64, 4), 7, "a"]), shown(list(range(100)))
    ("[<Tensor of shape (64, 4), float32>, 7, 'a']", '[0, 1, 2, 3, 4, 5, 6, 7, ... (100 in all)]')
    """
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return _shown_items(value)
    if hasattr(value, "dtype") and (shape := getattr(value, "shape", ())):
        kind = str(value.dtype).removeprefix("torch.")
        return f"<{type(value).__name__} of shape {tuple(shape)}, {kind}>"
    try:
        text = repr(value)
    except ValueError:  # Python does not write numbers as long as that
        return "a whole number of more than 4000 digits"
    except Exception:
        return f"<{type(value).__name__}>"
    long = len(text) > LONGEST and not isinstance(value, (str, bytes, Integral))
    if long or "\n" in text or " object at 0x" in text:
        return f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _shown_items(values: Any, most: int = 8) -> str:
    items: list[str] = []
    for item in values.items() if isinstance(values, dict) else values:
        if len(items) == most or sum(map(len, items)) > LONGEST // 3:
            items.append(f"... ({len(values)} in all)")
            break
        items.append(": ".join(map(shown, item)) if isinstance(values, dict) else shown(item))
    text = ", ".join(items) + "," * (isinstance(values, tuple) and len(values) == 1)
    opening, closing = "[]" if isinstance(values, list) else "()" if isinstance(values, tuple) else "{}"
    return f"{opening}{text}{closing}"


def shortened(sentence: str, most: int) -> str:
    """Shorten a sentence to `most` characters by leaving out its middle.

    >>> shortened("a name without end", 10)
    'a nam ... t end'
    """
    return sentence if len(sentence) <= most else f"{sentence[: most // 2]} ... {sentence[-(most // 2) :]}"


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
    """Check for a real number in [low, high], strictly over `above` and under `below`, finite unless `infinite`."""
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
    """Check for a whole number in [low, high]; without a `high`, no larger than can be counted to."""
    return _whole(field, value, low, LARGEST_COUNT if high is None else high, named=high is not None)


def check_seed(field: str, value: Any) -> int:
    """Check for a whole number >= 0, of up to 128 bits."""
    return _whole(field, value, 0, LARGEST_SEED, named=False)


def _whole(field: str, value: Any, low: int, high: int, *, named: bool) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        beyond = named or (whole and value > high)
        refuse(field, value, f"a whole number >= {low}" + (f" and <= {high}" if beyond else ""))
    return int(value)


def check_flag(field: str, value: Any) -> bool:
    """Check for True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        refuse(field, value, "True or False")
    return value


def check_choice(field: str, value: Any, options: Iterable[str]) -> str:
    """Check for one of a few words; a refusal suggests the nearest."""
    options = list(options)
    if not isinstance(value, str) or value not in options:
        near = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        refuse(field, value, "one of " + ", ".join(options) + hint)
    return str(value)


def check_path(field: str, value: Any) -> Path:
    """Check for a path, as text or as a Path. Whether there is such a file shows when it is read."""
    if not isinstance(value, (str, PurePath)) or not str(value):
        refuse(field, value, "a path, as a string or a pathlib.Path")
    if "\0" in str(value):
        refuse(field, value, "a path without NUL characters")
    return Path(value)


def check_size(field: str, value: Any) -> int:
    """Check for a number of bytes, also as people write it."""
    try:
        text = str(value).strip()
    except ValueError:  # as in `shown`
        text = ""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i)?)?b?", text, re.IGNORECASE)
    if found and not isinstance(value, bool):
        unit = (1024 if found[3] else 1000) ** " kmgtp".index((found[2] or " ").lower())
        if (size := int(Decimal(found[1]) * unit)) <= LARGEST_COUNT:
            return size
    refuse(field, value, "a number of bytes, or a size such as 500MB, 2GB or 1.5GiB")
