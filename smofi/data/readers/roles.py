"""Whole texts by role, of which any 80 characters in a row are a sample: one long text, and where samples begin.

The first 80 % of a role's text are to train on and the rest to test on. A sample and the character after it lie within
one role and on one side of that border, so no character tested on has ever been trained on.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, Decoded, Split
from smofi.data.formats.files import check_room, wrong
from smofi.data.formats.letters import NAMES, Changed, numbers, text_input
from smofi.data.formats.names import printable
from smofi.data.readers.leaf import LENGTH
from smofi.seeds import generator

MOST_CHARACTERS = 2**26
"""Twelve times all the plays."""

CHARACTER = 40
"""Bytes of memory for a character: in rows, targets and owners, as they are and shuffled."""


class Roles:
    """Texts to train on and to test on, role by role."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.owners: list[str] = []
        self.changed = Changed()
        self.characters = self.too_short = 0
        self.texts: dict[str, list[tuple[int, Array]]] = {"train": [], "test": []}

    def add(self, name: str, text: str, path: Path) -> None:
        """Add a role, unless its text is too short for a single sample."""
        if name in self.names:
            wrong(path, f"every role once, but {printable(name)!r} occurs twice")
        self.names.add(name)
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS:
            wrong(path, f"at most {MOST_CHARACTERS:,} characters in all, but there are more")
        check_room(path, CHARACTER * self.characters, f"{self.characters:,} characters take {CHARACTER} bytes each")
        text = text.replace("\r\n", "\n")
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)  # an e and an accent are one character, as é is
        border = len(text) * 4 // 5
        if border <= LENGTH:
            self.too_short += 1
            return
        letters = numbers(text, self.changed)
        for split, piece in (("train", letters[:border]), ("test", letters[border:])):
            if len(piece) > LENGTH:
                self.texts[split].append((len(self.owners), piece))
        self.owners.append(printable(name))

    def decoded(self, folder: Path) -> Decoded:
        """All of them, the samples of each split shuffled."""
        if not self.texts["train"] or not self.texts["test"]:
            wrong(folder, f"a role with {LENGTH + 1} characters in its first 80 % and in the rest, but there is none")
        order = generator(0, "shakespeare order")
        train, test = (_excerpts(self.texts[split], order) for split in ("train", "test"))
        roles = {"roles": len(self.owners), "roles_too_short": self.too_short, "roles_to_test": len(self.texts["test"])}
        return Decoded(
            "text", train, test, NAMES, tuple(self.owners), standardise=False, length=LENGTH,
            about={**roles, **self.changed.about()}, raw_input=text_input(LENGTH),
        )  # fmt: skip


def _excerpts(texts: list[tuple[int, Array]], order: np.random.Generator) -> Split:
    long = np.concatenate([text for _, text in texts])
    counts = [len(text) - LENGTH for _, text in texts]
    begins = np.cumsum([0, *(len(text) for _, text in texts)])
    rows = np.concatenate([np.arange(count) + begin for count, begin in zip(counts, begins, strict=False)])
    owner = np.repeat(np.array([who for who, _ in texts], np.int32), counts)
    shuffled = order.permutation(len(rows))
    rows = rows[shuffled]
    return Split(long, long[rows + LENGTH].astype(np.int64), owner[shuffled], rows)
