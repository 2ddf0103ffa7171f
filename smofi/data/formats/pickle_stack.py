"""The stack and the memo on which a pickle's plain values are put together: every step small, no value twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from smofi.data.decoded import Array
from smofi.data.formats.files import wrong

MOST_STEPS = 500_000
MOST_CONTAINERS = 10_000
"""CIFAR-100's training file takes 200,000 steps and ten dicts, lists and tuples."""

MOST_ITEMS, MOST_KEYS, LONGEST_KEY = 16, 1000, 1000
"""In a tuple, in a dict, and in a key: what is looked at again and again is short, so that a step is a small one."""

MARK = object()
_SCALARS = (str, bytes, int, type(None))


class PickledArray:
    """An array whose content comes afterwards."""

    def __init__(self, content: Array | None = None) -> None:
        self.content = content


class PickleStack:
    """Values that are put into dicts, lists and tuples; `path` is the file that errors name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0
        self.opcode, self.position = "", 0

    def refuse(self, found: str) -> NoReturn:
        wrong(self.path, f"plain data, but at byte {self.position:,} ({self.opcode}) it has {found}")

    # ------------------------------------------------------------------------------------------------ stack and memo

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            self.refuse("nothing to take")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        self.refuse("no mark to go back to")

    def plain(self, value: Any) -> Any:
        """A value that may go into a dict or a list, or come out as the result."""
        if isinstance(value, PickledArray):
            value = value.content
            if value is None:
                self.refuse("an array without content")
        elif isinstance(value, tuple):
            if not all(isinstance(item, _SCALARS) for item in value):
                self.refuse("a tuple of more than numbers and text")
        elif not isinstance(value, (*_SCALARS, list, dict)):
            self.refuse("a name where a value should be")
        return value

    def push(self, value: Any) -> None:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.refuse("a number of more than 64 bits")
        self.stack.append(bytes(value) if isinstance(value, bytearray) else value)

    def push_container(self, value: list[Any] | dict[Any, Any] | tuple[Any, ...]) -> None:
        self.containers += 1
        if self.containers > MOST_CONTAINERS:
            self.refuse(f"more than {MOST_CONTAINERS:,} dicts, lists and tuples")
        self.stack.append(value)

    def put(self, argument: Any) -> None:
        value = self.pop()
        self.stack.append(value)
        place = len(self.memo) if argument is None else argument
        if not 0 <= place <= MOST_STEPS:  # numbers that a dict keeps apart at once
            self.refuse("a place in the memo that no step can have made")
        self.memo[place] = value

    def get(self, argument: Any) -> None:
        value = self.memo.get(argument, MARK)
        if value is MARK:
            self.refuse("a reference to nothing")
        # What is referred to again could contain itself, or itself twice, and that again: only simple values may.
        nested = isinstance(value, tuple) and not all(isinstance(item, _SCALARS) for item in value)
        if nested or isinstance(value, (list, dict)):
            self.refuse("a reference to a dict, a list or a nested tuple")
        self.stack.append(value)

    # ---------------------------------------------------------------------------------------------------- containers

    def append(self, items: list[Any]) -> None:
        target = self.pop()
        if not isinstance(target, list):
            self.refuse("items for something that is not a list")
        target.extend(self.plain(item) for item in items)
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        target = self.pop()
        if not isinstance(target, dict) or len(items) % 2:
            self.refuse("keys and values for something that is not a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                self.refuse("a key that is neither text nor a number")
            if not isinstance(key, int) and len(key) > LONGEST_KEY:
                self.refuse(f"a key of more than {LONGEST_KEY:,} letters")
            target[key] = self.plain(value)
            if len(target) > MOST_KEYS:
                self.refuse(f"a dict of more than {MOST_KEYS:,} keys")
        self.stack.append(target)

    def make_tuple(self, items: list[Any]) -> None:
        if len(items) > MOST_ITEMS:
            self.refuse(f"a tuple of more than {MOST_ITEMS} items")
        self.push_container(tuple(items))

    def pop_some(self, size: int) -> list[Any]:
        return [self.pop() for _ in range(size)][::-1]

    def make_dict(self) -> None:
        items = self.pop_to_mark()
        self.push_container({})
        self.set_items(items)

    def make_list(self) -> None:
        items = self.pop_to_mark()
        self.push_container([])
        self.append(items)
