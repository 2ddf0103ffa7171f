"""Lists that know what changed since when, so that a reader is sent that much and nothing is kept for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Item(Protocol):
    """Anything with a plain form."""

    def plain(self) -> dict[str, Any]: ...


Kept = TypeVar("Kept", bound=Item)


class Part(Generic[Key, Kept]):
    """Items by key, each with the version of the board at which it last changed."""

    def __init__(self) -> None:
        self.items: dict[Key, Kept] = {}
        self._versions: dict[Key, int] = {}
        self._removed = 0  # the version at which an item was last taken out

    def put(self, key: Key, item: Kept, version: int) -> None:
        """Add an item, or say that it has changed."""
        self.items[key] = item
        self._versions[key] = version

    def remove(self, keys: Iterable[Key], version: int) -> None:
        """Take items out. Readers get the whole list next."""
        for key in list(keys):
            del self.items[key], self._versions[key]
            self._removed = version

    def forget_first(self) -> None:
        """Drop the oldest item. Readers may keep it."""
        key = next(iter(self.items))
        del self.items[key], self._versions[key]

    def whole(self, since: int) -> bool:
        """Whether a reader who knows this version needs all items rather than the changed ones."""
        return since < max(1, self._removed)

    def plain(self, since: int) -> list[dict[str, Any]]:
        """What a reader who knows this version has to be told."""
        whole = self.whole(since)
        return [item.plain() for key, item in self.items.items() if whole or self._versions[key] > since]
