"""Excerpts that the LEAF benchmark has cut out already: {users, num_samples, user_data: {user: {x: [80], y: [1]}}}.

A window slides over a user's text: sample i is characters i to i + 79, and the one after. Versions of LEAF differ: it
slides over the whole text, or over every line of it with 80 spaces in front.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, Decoded, ReadProgress, Split
from smofi.data.formats.files import wrong
from smofi.data.formats.letters import LETTERS, NAMES, Changed, numbers, text_input
from smofi.data.formats.names import printable
from smofi.seeds import generator

LENGTH = 80
SPACE = LETTERS.index(" ")


class Excerpts:
    """Excerpts and the character after each, user by user, to train on and to test on."""

    def __init__(self) -> None:
        self.owners: dict[str, int] = {}
        self.changed = Changed()
        self.blocks: dict[str, list[tuple[int, Array, Array]]] = {"train": [], "test": []}

    def add(self, document: Any, path: Path, split: str | None, progress: ReadProgress) -> None:
        """Add a file's users to a split; if it is None, the first 80 % of each are to train on, the rest to test on."""
        users, counts, data = _checked(document, path)
        for done, (user, count) in enumerate(zip(users, counts, strict=True), 1):
            inputs, targets = _samples(data[user], count, user, path, self.changed)
            if split is None and user in self.owners:
                wrong(path, f"every user in one file only, but {printable(user)!r} was in another")
            owner = self.owners.setdefault(user, len(self.owners))
            if split is not None:
                self.blocks[split].append((owner, inputs, targets))
            else:
                end, begin = _border(inputs, targets, user, path)
                self.blocks["train"].append((owner, inputs[:end], targets[:end]))
                self.blocks["test"].append((owner, inputs[begin:], targets[begin:]))
            progress(done, len(users))

    def decoded(self, folder: Path) -> Decoded:
        """All of them, each split shuffled."""
        order = generator(0, "shakespeare order")
        splits = {name: _joined(blocks, order) for name, blocks in self.blocks.items()}
        if not all(len(split.targets) for split in splits.values()):
            wrong(folder, f"an excerpt of {LENGTH} characters to train on and one to test on, but there is none")
        return Decoded(
            "text", splits["train"], splits["test"], NAMES, tuple(map(printable, self.owners)), standardise=False,
            length=LENGTH, about=self.changed.about(), raw_input=text_input(LENGTH),
        )  # fmt: skip


def _border(inputs: Array, targets: Array, user: str, path: Path) -> tuple[int, int]:
    """Where the samples to train on end, and where those begin that have no character of theirs."""
    follows = (inputs[1:, :-1] == inputs[:-1, 1:]).all(1) & (inputs[1:, -1] == targets[:-1])
    in_order = follows | (inputs[1:] == SPACE).all(1)
    if not in_order.all():
        wrong(
            path,
            f"the samples of user {printable(user)!r} in the order of the text, as the last fifth is the test set: "
            f"each one character further, or {LENGTH} spaces where a line begins, but sample "
            f"{1 + int(in_order.argmin()):,} (counting from 0) does not follow the one before. For samples in another "
            "order, use the folders train and test that LEAF makes",
        )
    end = len(targets) * 4 // 5
    lines = 1 + np.flatnonzero(~follows)
    # within a line, the next sample without any character of sample i's is i + 81
    return end, min(end + LENGTH, *lines[lines >= end][:1].tolist(), len(targets))


def _joined(blocks: list[tuple[int, Array, Array]], order: np.random.Generator) -> Split:
    sizes = [len(targets) for _, _, targets in blocks]
    shuffled = order.permutation(sum(sizes))
    inputs = np.empty((len(shuffled), LENGTH), np.uint8)
    targets = np.empty(len(shuffled), np.int64)
    owner = np.empty(len(shuffled), np.int32)
    for (who, some_inputs, some_targets), end in zip(blocks, np.cumsum(sizes), strict=True):
        places = shuffled[end - len(some_targets) : end]
        inputs[places], targets[places], owner[places] = some_inputs, some_targets, who
    return Split(inputs, targets, owner)


def _checked(document: Any, path: Path) -> tuple[list[str], list[int], dict[str, Any]]:
    """The users, how many samples each has, and their data."""
    if not isinstance(document, dict):
        wrong(path, f"an object with users, num_samples and user_data, but it is a {type(document).__name__}")
    users, counts, data = (document.get(name) for name in ("users", "num_samples", "user_data"))
    if not isinstance(users, list) or not all(isinstance(user, str) for user in users):
        wrong(path, "'users' to be a list of names")
    if not isinstance(counts, list) or not all(type(count) is int for count in counts):
        wrong(path, "'num_samples' to be a list of whole numbers")
    if len(users) != len(counts):
        wrong(path, f"as many 'num_samples' as 'users', but there are {len(counts):,} and {len(users):,}")
    if len(set(users)) != len(users):
        wrong(path, "every user once in 'users'")
    if not isinstance(data, dict):
        wrong(path, "'user_data' to be an object")
    if absent := [user for user in users if user not in data]:
        wrong(path, f"data of all its users, but {printable(absent[0])!r} has none")
    return users, counts, data


def _samples(data: Any, count: int, user: str, path: Path, changed: Changed) -> tuple[Array, Array]:
    """One user's excerpts `[samples, 80]` and the character after each."""
    who = f"of user {printable(user)!r}"
    x, y = (data.get("x"), data.get("y")) if isinstance(data, dict) else (None, None)
    for name, strings, length in (("x", x, LENGTH), ("y", y, 1)):
        if not isinstance(strings, list):
            wrong(path, f"{name!r} {who} to be a list of strings")
        if len(strings) != count:
            wrong(path, f"{count:,} strings in {name!r} {who}, as num_samples says, but there are {len(strings):,}")
        odd = next((string for string in strings if type(string) is not str or len(string) != length), None)
        if odd is not None:
            size = f"has {len(odd):,}" if isinstance(odd, str) else f"is a {type(odd).__name__}"
            wrong(path, f"strings of {length} characters in {name!r} {who}, but one {size}")
    return numbers("".join(x or ()), changed).reshape(-1, LENGTH), numbers("".join(y or ()), changed)
