"""Payloads that were received and wait for the application: reading pauses while there are too many."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog:
    """How much of one peer waits. `add` and `room` belong to the event loop, `taken` to any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, most_bytes: int) -> None:
        self.loop, self._most, self._most_bytes = loop, most, most_bytes
        self._lock = threading.Lock()
        self._count = self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def add(self, size: int) -> None:
        """A payload of this size waits."""
        with self._lock:
            self._count, self._bytes = self._count + 1, self._bytes + size
            if self._is_full():
                self._room.clear()

    def taken(self, size: int) -> None:
        """The application took a payload of this size."""
        with self._lock:
            was_full = self._is_full()
            self._count, self._bytes = self._count - 1, self._bytes - size
            if was_full and not self._is_full() and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._room.set)

    async def room(self) -> None:
        """Wait until there is room."""
        await self._room.wait()

    def _is_full(self) -> bool:
        return self._count >= self._most or self._bytes >= self._most_bytes


class Mailbox(Generic[T]):
    """What waits for the application, in order. Putting never blocks: whoever puts minds a `Backlog`.

    >>> box = Mailbox()
    >>> box.put("a"), box.get(timeout=0)
    (None, 'a')
    """

    def __init__(self) -> None:
        self._items: deque[tuple[T, Callable[[], None] | None]] = deque()
        self._changed = threading.Condition()
        self._error: Exception | None = None

    def put(self, item: T, taken: Callable[[], None] | None = None) -> None:
        """Add an item; `taken` is called in the thread that gets it."""
        with self._changed:
            self._items.append((item, taken))
            self._changed.notify()

    def replace_last(self, kinds: tuple[type[T], ...], item: T) -> None:
        """Add an item, instead of the newest one if that is of one of these kinds."""
        with self._changed:
            if self._items and isinstance(self._items[-1][0], kinds):
                self._items.pop()
            self._items.append((item, None))
            self._changed.notify()

    def fail(self, error: Exception) -> None:
        """After what waits, every `get` raises this."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> T:
        """The next item; raises queue.Empty when there is none in time."""
        deadline = None if timeout is None else monotonic() + timeout
        with self._changed:
            while not self._items:
                if self._error is not None:
                    raise self._error
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    raise queue.Empty
                self._changed.wait(left)
            item, taken = self._items.popleft()
        if taken is not None:
            taken()
        return item
