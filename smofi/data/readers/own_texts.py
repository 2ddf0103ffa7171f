"""The user's own texts, next character: 80 characters in, the next one out, over the alphabet of the texts themselves.

The alphabet are the characters to train on, at most the 255 that occur most often. All others are one more character,
which also stands for those that only occur in the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smofi.data.decoded import Decoded, ReadProgress
from smofi.data.formats.files import wrong
from smofi.data.readers.items import Found
from smofi.data.readers.leaf import LENGTH
from smofi.data.readers.texts import Texts, border, check_characters, read_text

OTHER = "\ufffd"
"""Stands for every character that is not in the alphabet."""

MOST_LETTERS = 255


@dataclass
class Alphabet:
    """Characters as numbers: 0 is any other one. `replaced` counts these, as texts become numbers.

    >>> Alphabet.of(["née", "ne"]).letters[1:]
    'ené'
    """

    letters: str
    replaced: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Alphabet:
        """The characters that occur most often, in the order of their codes."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        del counts[OTHER]
        often = sorted(counts, key=lambda letter: (-counts[letter], letter))[:MOST_LETTERS]
        return cls(OTHER + "".join(sorted(often)))

    @property
    def names(self) -> tuple[str, ...]:
        """What each is called in a list: those that cannot be seen by their escapes."""
        return tuple(letter if letter.isprintable() else repr(letter)[1:-1] for letter in self.letters)

    @cached_property
    def _codes(self) -> npt.NDArray[np.uint32]:
        return np.array([ord(letter) for letter in self.letters[1:]], np.uint32)

    def numbers(self, text: str) -> npt.NDArray[np.uint8]:
        """The number of each character.

        >>> Alphabet(OTHER + "abc").numbers("cab!").tolist()
        [3, 1, 2, 0]
        """
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        place = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        known = self._codes[place] == codes
        self.replaced.update(chr(code) for code in codes[~known])
        return np.where(known, place + 1, 0).astype(np.uint8)


def read_texts(folder: Path, found: Found, progress: ReadProgress) -> Decoded:
    """The texts of all clients, as samples of 80 characters and the next one."""
    items = [(item, None if not found.test else "train") for item in found.train]
    items += [(item, "test") for item in found.test]
    texts, characters = [], 0
    for number, (item, _) in enumerate(items, start=1):
        texts.append(read_text(item.path))
        characters += len(texts[-1])
        check_characters(characters, item.path)
        progress(number, len(items))
    splits = [split for _, split in items]
    alphabet = Alphabet.of(
        text if split else text[: border(text)] for text, split in zip(texts, splits, strict=True) if split != "test"
    )
    if alphabet.letters == OTHER and any(OTHER in text for text in texts):
        wrong(folder, f"texts to train on with other characters than {OTHER}, which stands for unknown ones")
    read = Texts(alphabet.numbers, "texts order")
    added = [read.add(item.client, text, split) for (item, split), text in zip(items, texts, strict=True)]
    train, test = read.splits(folder, "text")
    about = dict(found.about)
    if too_short := added.count(False):
        short = f"{too_short:,} text{'s' * (too_short > 1)} too short for {LENGTH} characters and the next one"
        about["left_out"] = "; ".join([*([about["left_out"]] if "left_out" in about else []), short])
    return Decoded(
        "text", train, test, alphabet.names, tuple(read.owners), standardise=False, length=LENGTH,
        about={**about, "remark": _remark(alphabet, characters)}, raw_input=_raw_input(alphabet),
    )  # fmt: skip


def _remark(alphabet: Alphabet, characters: int) -> str:
    """Which alphabet it is, and what was replaced."""
    count = len(alphabet.letters) - 1
    said = f"alphabet: the {count} character{'s' * (count > 1)} of the training texts, and one for all others"
    if not alphabet.replaced:
        return said
    some = " ".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter, _ in alphabet.replaced.most_common(5)
    )
    return f"{said}, which replaces {alphabet.replaced.total():,} of {characters:,} characters, such as {some}"


def _raw_input(alphabet: Alphabet) -> dict[str, object]:
    """As `letters.text_input`, where there is nothing near to take the place of an unknown character."""
    return {
        "kind": "text",
        "length": LENGTH,
        "alphabet": alphabet.letters,
        "normalise": "NFC",
        "nearest": {},
        "decompose": None,
        "unknown": OTHER,
        "type": "int64",
    }
