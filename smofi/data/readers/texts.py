"""Whole texts, of which any 80 characters in a row are a sample: one long text, and where samples begin.

The first 80 % of a text are to train on and the rest to test on. A sample and the character after it lie within one
text and on one side of that border, so no character tested on has ever been trained on.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, Split
from smofi.data.formats.files import check_room, read_bytes, wrong
from smofi.data.formats.names import printable
from smofi.data.readers.leaf import LENGTH
from smofi.seeds import generator

MOST_CHARACTERS = 2**26
"""Twelve times all the plays of Shakespeare."""

MOST_TEXT = 2**26
"""Bytes of a file."""

CHARACTER = 40
"""Bytes of memory for a character: in rows, targets and owners, as they are and shuffled."""


def read_text(path: Path) -> str:
    """What is in a file, as `normal` text."""
    try:
        return normal(read_bytes(path, MOST_TEXT, "a text").decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        wrong(path, f"text in UTF-8, but byte {error.start:,} is not")


def normal(text: str) -> str:
    """The same text with one character for the end of a line, and one for a letter with its accents.

    >>> normal("e\\u0301\\r\\n") == "é\\n"
    True
    """
    text = text.replace("\r\n", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def border(text: str) -> int:
    """Where the part to train on ends.

    >>> border("0123456789")
    8
    """
    return len(text) * 4 // 5


def check_characters(characters: int, path: Path) -> None:
    """Refuse more text than is read, or than fits into memory."""
    if characters > MOST_CHARACTERS:
        wrong(path, f"at most {MOST_CHARACTERS:,} characters in all, but there are more")
    check_room(path, CHARACTER * characters, f"{characters:,} characters take {CHARACTER} bytes each")


class Texts:
    """Texts as numbers, to train on and to test on, and whose they are."""

    def __init__(self, encode: Callable[[str], Array], order: str) -> None:
        self.encode, self.order = encode, order
        self.owners: list[str] = []
        self.numbers: dict[str, int] = {}
        self.texts: dict[str, list[tuple[int, Array]]] = {"train": [], "test": []}

    def add(self, owner: str, text: str, split: str | None = None) -> bool:
        """Add a text to a split, or to both if it is None; False if it is too short for a single sample."""
        end = border(text)
        if (end if split is None else len(text)) <= LENGTH:
            return False
        letters, number = self.encode(text), self.numbers.setdefault(owner, len(self.owners))
        if number == len(self.owners):
            self.owners.append(printable(owner))
        pieces = [("train", letters[:end]), ("test", letters[end:])] if split is None else [(split, letters)]
        for name, piece in pieces:
            if len(piece) > LENGTH:
                self.texts[name].append((number, piece))
        return True

    def splits(self, folder: Path, one: str) -> tuple[Split, Split]:
        """The samples to train on and those to test on, each shuffled; `one` is what an error calls a text."""
        if not self.texts["train"] or not self.texts["test"]:
            wrong(
                folder,
                f"a {one} with {LENGTH + 1} characters in its first 80 % and in the rest, but there is none",
            )
        order = generator(0, self.order)
        return _excerpts(self.texts["train"], order), _excerpts(self.texts["test"], order)


def _excerpts(texts: list[tuple[int, Array]], order: np.random.Generator) -> Split:
    long = np.concatenate([text for _, text in texts])
    counts = [len(text) - LENGTH for _, text in texts]
    begins = np.cumsum([0, *(len(text) for _, text in texts)])
    rows = np.concatenate([np.arange(count) + begin for count, begin in zip(counts, begins, strict=False)])
    owner = np.repeat(np.array([who for who, _ in texts], np.int32), counts)
    shuffled = order.permutation(len(rows))
    rows = rows[shuffled]
    return Split(long, long[rows + LENGTH].astype(np.int64), owner[shuffled], rows)
