"""Numbers with what they count: "1 client", "1,200 batches"."""

from __future__ import annotations

from collections.abc import Sequence


def plural(number: int, noun: str) -> str:
    """Write a number and its noun, which is given in the singular.

    >>> plural(1, "client"), plural(1200, "round"), plural(2, "batch"), plural(3, "class"), plural(5, "epoch")
    ('1 client', '1,200 rounds', '2 batches', '3 classes', '5 epochs')
    """
    ending = "es" if noun.endswith(("tch", "s", "x")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def between(low: int, high: int) -> str:
    """Write a range, or the number if there is only one.

    >>> between(3, 1200), between(2, 2)
    ('3 to 1,200', '2')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def all_of(names: Sequence[str]) -> str:
    """Write names as a list in a sentence.

    >>> all_of(["a"]), all_of(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def some_of(names: Sequence[str], most: int = 6, separator: str = ", ") -> str:
    """Write the first of many names, and how many more there are.

    >>> some_of(["a", "b"]), some_of(["a", "b", "c"], most=1)
    ('a, b', 'a and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return separator.join(names[:most]) + more
