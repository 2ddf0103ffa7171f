"""Texts: the last characters of each, as numbers; the model's answer is the character that comes next."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

ENDINGS = (".txt",)
TAKES = (
    "It takes texts in UTF-8, and answers with the character that comes next. The last characters of a text count, a "
    "line break at its end among them; a text that is too short is filled up in front."
)


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of the last characters in each file."""
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        try:
            yield path, _numbers(content.decode("utf-8-sig"), facts, path)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8, but byte {error.start:,} is not") from error


def from_words(texts: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of the last characters of each text, which is named by itself."""
    for text in texts:
        yield text, _numbers(text, facts, "--text")


def _numbers(text: str, facts: dict[str, Any], where: str) -> Any:
    if not text:
        raise ValueError(f"{where}: expected at least one character, but there is none")
    text = unicodedata.normalize(facts["normalise"], text.replace("\r\n", "\n"))
    letters = [_nearest(letter, facts) for letter in text[-facts["length"] :]]
    filled = [facts["unknown"]] * (facts["length"] - len(letters)) + letters
    return np.array([facts["alphabet"].index(letter) for letter in filled], np.int64)


def _nearest(letter: str, facts: dict[str, Any]) -> str:
    """Return the character itself, the nearest one of the alphabet, or what stands for those that are unknown."""
    alphabet, nearest = facts["alphabet"], facts["nearest"]
    if letter in alphabet:
        return letter
    if letter in nearest:
        return str(nearest[letter])
    if facts["decompose"] is None:
        return str(facts["unknown"])
    plain = unicodedata.normalize(facts["decompose"], letter)[0]
    if plain in alphabet and (plain != " " or letter.isspace()):
        return plain
    return str(nearest.get(plain, facts["unknown"]))
