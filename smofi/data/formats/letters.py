"""Text as numbers below 80: the characters of the LEAF benchmark's Shakespeare, in its order."""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LETTERS = "\n !\"&'(),-." + string.digits + ":;>?" + string.ascii_uppercase + "[]" + string.ascii_lowercase + "}"
NAMES = tuple("\\n" if letter == "\n" else letter for letter in LETTERS)

UNKNOWN = 255
AT_ONCE = 2**20
"""Characters that are looked up at once: each takes ten bytes of memory meanwhile."""

NUMBERS = np.full(129, UNKNOWN, np.uint8)
"""The number of every ASCII character, and last that of all others."""
NUMBERS[[ord(letter) for letter in LETTERS]] = np.arange(len(LETTERS))

NEAREST = {
    "\t": " ", "\r": "\n", "\u2028": "\n", "\u2029": "\n", "\v": "\n", "\f": "\n", "\x85": "\n",
    "‘": "'", "’": "'", "‚": ",", "‛": "'", "`": "'", "´": "'", "′": "'", "ʼ": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"', "«": '"', "»": '"', "‹": "'", "›": "'",
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-", "_": "-",
    "{": "[", "<": "[", "Æ": "A", "æ": "a", "Œ": "O", "œ": "o", "Ø": "O", "ø": "o", "ß": "s", "Þ": "T", "þ": "t",
    "Ð": "D", "ð": "d", "Ł": "L", "ł": "l", "ſ": "s",
}  # fmt: skip


def text_input(length: int) -> dict[str, Any]:
    """A reader's `raw_input`, where a sample is this many characters and the model's answer is the next one.

    >>> text_input(80)["unknown"]
    ' '
    """
    return {
        "kind": "text",
        "length": length,
        "alphabet": LETTERS,
        "normalise": "NFC",
        "nearest": NEAREST,
        "decompose": "NFKD",
        "unknown": " ",
        "type": "int64",
    }


@dataclass
class Changed:
    """How many characters were not among the 80: written as a near one, or, having none, as a space."""

    transliterated: int = 0
    blanked: int = 0

    def about(self) -> dict[str, int]:
        """The same, for the record."""
        return {"characters_transliterated": self.transliterated, "characters_blanked": self.blanked}


def nearest(letter: str) -> str | None:
    """The one of the 80 that comes nearest to another character, None if none does.

    >>> [nearest(letter) for letter in ("é", "“", "—", "中")]
    ['e', '"', '-', None]
    """
    if letter in NEAREST:
        return NEAREST[letter]
    # é is an e and an accent, … is three points
    plain = unicodedata.normalize("NFKD", letter)[0]
    return plain if plain in LETTERS and (plain != " " or letter.isspace()) else NEAREST.get(plain)


def numbers(text: str, changed: Changed) -> npt.NDArray[np.uint8]:
    """The number of each character; those that had to become others are counted in `changed`.

    >>> changed = Changed()
    >>> [LETTERS[number] for number in numbers("né中", changed)], changed
    (['n', 'e', ' '], Changed(transliterated=1, blanked=1))
    """
    if len(text) > AT_ONCE:
        return np.concatenate([numbers(text[at : at + AT_ONCE], changed) for at in range(0, len(text), AT_ONCE)])
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    found: npt.NDArray[np.uint8] = NUMBERS[np.minimum(codes, 128)]
    strange = found == UNKNOWN
    if strange.any():
        distinct, inverse, counts = np.unique(codes[strange], return_inverse=True, return_counts=True)
        near = [nearest(chr(code)) for code in distinct]
        found[strange] = NUMBERS[[ord(letter or " ") for letter in near]][inverse]
        blank = np.array([letter is None for letter in near])
        changed.blanked += int(counts[blank].sum())
        changed.transliterated += int(counts[~blank].sum())
    return found
