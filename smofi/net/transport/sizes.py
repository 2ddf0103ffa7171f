"""How large a payload is, and whether that is too large."""

from __future__ import annotations

from smofi.errors import InputError
from smofi.net.transport.envelope import Parts


def size(payload: Parts) -> int:
    """The bytes of a payload.

    >>> size(b"abc"), size([b"abc", memoryview(b"de")])
    (3, 5)
    """
    if isinstance(payload, memoryview):
        return payload.nbytes
    if isinstance(payload, (bytes, bytearray)):
        return len(payload)
    return sum(size(part) for part in payload)


def check_payload(payload: Parts, most: int) -> None:
    """Refuse a payload that the other side would not take."""
    if (found := size(payload)) > most:
        raise InputError(f"a payload has {found} bytes; at most {most} are accepted")
