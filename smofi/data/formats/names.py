"""Names from outside, of classes, owners and files: made fit to be shown."""

from __future__ import annotations

LONGEST = 200


def printable(name: str) -> str:
    """A name on one line, at most 200 characters long, with a question mark for what cannot be printed.

    >>> printable("HAMLET\\x1b\\n")
    'HAMLET??'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST])
