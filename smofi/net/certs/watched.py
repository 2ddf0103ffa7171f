"""A file that is read again when it changes, so that nothing needs a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from smofi.errors import InputError
from smofi.files import read_regular
from smofi.net.certs.files import LARGEST

Value = TypeVar("Value")
RECENT = 2 * 10**9
"""Nanoseconds in which a file may change twice and still have the same date and size: until then, it is read."""


class Watched(Generic[Value]):
    """What `parse` makes of a file's content. Refused at first if it is wrong; later, the last good one stays in force.

    With a value for `missing`, the file need not be there at first. `warn` is told once what is wrong with a file. To
    ask for the value costs no more than asking for the file's date and size.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], Value],
        expected: str,
        warn: Callable[[str], None],
        missing: Value | None = None,
    ) -> None:
        self.path, self.parse, self.expected, self.warn = path, parse, expected, warn
        self.lock = Lock()
        self.content, self.warned = b"", ""
        self.state = self._state()
        if missing is not None and self.state is None:
            self.current = missing
        else:
            self.content = read_regular(path, LARGEST, expected)
            self.current = self._parsed(self.content)

    def value(self) -> Value:
        """The value of the file as it is now."""
        with self.lock:
            state = self._state()
            if state != self.state or (state is not None and abs(time.time_ns() - state[0]) < RECENT):
                self.state = state
                self._read_again()
            return self.current

    def _read_again(self) -> None:
        try:
            content = read_regular(self.path, LARGEST, self.expected)
            if content != self.content:
                self.current, self.content = self._parsed(content), content
            self.warned = ""
        except InputError as error:
            # never there, and still not
            if (self.content or self.state is not None) and str(error) != self.warned:
                self.warned = str(error)
                self.warn(f"{error}; what it was before stays in force")

    def _parsed(self, content: bytes) -> Value:
        try:
            return self.parse(content)
        except ValueError as error:
            raise InputError(f"{self.path} {error}: expected {self.expected}") from None

    def _state(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
