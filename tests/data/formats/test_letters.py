"""Characters as numbers, against LEAF's vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smofi.data.formats.letters import LETTERS, NAMES, Changed, nearest, numbers

# as published, models/utils/language_utils.py of LEAF
LEAF = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"


def test_the_vocabulary_is_that_of_leaf() -> None:
    assert LETTERS == LEAF
    assert len(LETTERS) == len(NAMES) == len(set(NAMES)) == 80
    assert all(name.isprintable() for name in NAMES)
    changed = Changed()
    assert numbers(LEAF, changed).tolist() == list(range(80))
    assert changed == Changed(0, 0)


@pytest.mark.parametrize(
    ("written", "read", "transliterated", "blanked"),
    [
        ("“Ay,” quoth’he—no", '"Ay," quoth\'he-no', 4, 0),
        ("façade Ça naïve", "facade Ca naive", 3, 0),
        ("æther œuvre ſ", "ather ouvre s", 3, 0),
        ("a\tb\u00a0c", "a b c", 2, 0),
        ("one\rtwo", "one\ntwo", 1, 0),
        ("£5 中 😀 \ud800", " 5      ", 0, 4),
        ("a\u0301 \u0000~", "a    ", 0, 3),
        ("", "", 0, 0),
    ],
)
def test_other_characters(written: str, read: str, transliterated: int, blanked: int) -> None:
    changed = Changed()
    assert "".join(LEAF[number] for number in numbers(written, changed)) == read
    assert changed == Changed(transliterated, blanked)


@hypothesis_settings(max_examples=200)
@given(st.text(st.characters(), max_size=50))
def test_any_text_keeps_its_length_and_what_is_known(text: str) -> None:
    changed = Changed()
    found = numbers(text, changed)
    assert len(found) == len(text)
    assert all(number < 80 for number in found)
    assert all(LEAF[number] == letter for number, letter in zip(found, text, strict=True) if letter in LEAF)
    assert changed.transliterated + changed.blanked == sum(letter not in LEAF for letter in text)
    assert all(near is None or near in LEAF for near in map(nearest, text))
