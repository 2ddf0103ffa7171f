"""Shakespeare in its three layouts, against plain loops over strings, and what is refused."""

from __future__ import annotations

import gzip
import json
import random
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smofi.data import shakespeare
from smofi.data.decoded import Decoded, Split, silent
from smofi.data.shakespeare import LETTERS, Alphabet, find_shakespeare, nearest
from smofi.errors import InputError


def prose(seed: int, length: int) -> str:
    return "".join(random.Random(seed).choices(string.ascii_letters + " ,.\n", k=length))


def windows(text: str) -> list[tuple[str, str]]:
    return [(text[i : i + 80], text[i + 80]) for i in range(len(text) - 80)]


def samples(decoded: Decoded, part: Split) -> list[tuple[str, str, str]]:
    """Owner, excerpt and next character of every sample, as strings."""
    found = []
    for index, target in enumerate(part.targets):
        if part.rows is None:
            excerpt = part.inputs[index]
        else:
            excerpt = part.inputs[part.rows[index] : part.rows[index] + decoded.length]
        text = "".join(LETTERS[number] for number in excerpt)
        found.append((decoded.owners[part.owner[index]], text, LETTERS[target]))
    return found


def leaf(users: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    data = {user: {"x": [x for x, _ in some], "y": [y for _, y in some]} for user, some in users.items()}
    return {"users": list(users), "num_samples": [len(some) for some in users.values()], "user_data": data}


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def read(path: Path) -> Decoded:
    return find_shakespeare(path).read(silent)


HAMLET, OPHELIA, GHOST = prose(0, 1000), prose(1, 407), prose(2, 120)
ROLES = [
    {"play": "hamlet", "role": "Hamlet", "speeches": 1, "text": HAMLET},
    {"play": "hamlet", "role": "Guard", "text": prose(3, 101)},
    {"play": "hamlet", "role": "Ophelia", "text": [OPHELIA[:200], OPHELIA[201:]]},
    {"play": "hamlet", "role": "Ghost", "text": GHOST},
]
JOINED = OPHELIA[:200] + "\n" + OPHELIA[201:]


def by_hand() -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    train, test = [], []
    # 80 % of 1000, 407 and 120 characters; the guard's are 80, too few for an excerpt and one more
    for name, text, border in (("Hamlet", HAMLET, 800), ("Ophelia", JOINED, 325), ("Ghost", GHOST, 96)):
        train += [(f"hamlet: {name}", *sample) for sample in windows(text[:border])]
        test += [(f"hamlet: {name}", *sample) for sample in windows(text[border:])]
    return train, test


@pytest.mark.parametrize("name", ["roles.json", "roles.json.gz"])
def test_roles_give_every_window_on_either_side_of_the_border(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name, ROLES)
    decoded = read(path)
    train, test = by_hand()
    assert (len(train), len(test)) == (720 + 245 + 16, 120 + 2)
    assert sorted(samples(decoded, decoded.train)) == sorted(train)
    assert sorted(samples(decoded, decoded.test)) == sorted(test)
    assert decoded.owners == ("hamlet: Hamlet", "hamlet: Ophelia", "hamlet: Ghost")
    assert (decoded.kind, decoded.length, len(decoded.classes), decoded.standardise) == ("text", 80, 80, False)
    assert find_shakespeare(tmp_path).paths == find_shakespeare(path).paths == [path]
    for part in (decoded.train, decoded.test):
        assert (part.inputs.dtype, part.inputs.ndim) == (np.uint8, 1)
        assert (part.targets.dtype, part.owner.dtype, part.rows.dtype) == (np.int64, np.int32, np.int64)
    # a beginning is a fair sample: Hamlet has 720 of 981
    assert 60 <= np.count_nonzero(decoded.train.owner[:100] == 0) <= 87


def test_a_text_per_role(tmp_path: Path) -> None:
    put(tmp_path / "HAMLET_GHOST.txt", GHOST.encode())
    put(tmp_path / "HAMLET_HAMLET.txt", b"\xef\xbb\xbf" + HAMLET.replace("\n", "\r\n").encode())
    put(tmp_path / "ROMEO_AND_JULIET_ROMEO.txt", JOINED.replace("a", "à").replace("e", "e\u0301").encode())
    put(tmp_path / "readme.txt", b"nobody")
    decoded = read(tmp_path)
    assert decoded.owners == ("HAMLET: GHOST", "HAMLET: HAMLET", "ROMEO_AND_JULIET_ROMEO")
    without = [sample[1:] for sample in samples(decoded, decoded.train)]
    assert sorted(without) == sorted(sample[1:] for sample in by_hand()[0])
    assert len(find_shakespeare(tmp_path).paths) == 3


@pytest.mark.parametrize("inside", [".", "data", "shakespeare/data"])
def test_leaf_with_its_own_test_part(tmp_path: Path, inside: str) -> None:
    one, two, three = windows(prose(5, 90)), windows(prose(6, 87)), windows(prose(7, 84))
    put(tmp_path / inside / "train/all_data_0_train_9.json", leaf({"HAMLET_GHOST": one, "LEAR_FOOL": two}))
    put(tmp_path / inside / "train/all_data_1_train_9.json", leaf({"OTHELLO_IAGO": three}))
    put(tmp_path / inside / "test/all_data_0_test_9.json", leaf({"LEAR_FOOL": one[:3], "LEAR_LEAR": two}))
    decoded = read(tmp_path)
    assert decoded.owners == ("HAMLET_GHOST", "LEAR_FOOL", "OTHELLO_IAGO", "LEAR_LEAR")
    users = {"HAMLET_GHOST": one, "LEAR_FOOL": two, "OTHELLO_IAGO": three}
    train = [(user, *sample) for user, some in users.items() for sample in some]
    test = [("LEAR_FOOL", *sample) for sample in one[:3]] + [("LEAR_LEAR", *sample) for sample in two]
    assert sorted(samples(decoded, decoded.train)) == sorted(train)
    assert sorted(samples(decoded, decoded.test)) == sorted(test)
    assert samples(decoded, decoded.train) != train
    assert (decoded.train.inputs.shape, decoded.train.inputs.dtype) == ((21, 80), np.uint8)
    assert [path.parent.name for path in find_shakespeare(tmp_path).paths] == ["train", "train", "test"]


@pytest.mark.parametrize("name", ["all_data.json", "all_data/all_data_niid_1_keep_64.json", "mine.json"])
def test_leaf_without_a_test_part_is_split_in_time_and_shares_no_character(tmp_path: Path, name: str) -> None:
    text = prose(8, 680)
    put(tmp_path / name, leaf({"LEAR": windows(text), "FOOL": windows(prose(9, 83))}))
    decoded = read(tmp_path)
    # 600 samples: 480 end with character 559 as a target; those from character 560 on are 40
    expected = [("LEAR", *sample) for sample in windows(text[:560])] + [
        ("FOOL", *sample) for sample in windows(prose(9, 83)[:82])
    ]
    assert sorted(samples(decoded, decoded.train)) == sorted(expected)
    assert sorted(samples(decoded, decoded.test)) == sorted(("LEAR", *sample) for sample in windows(text[560:]))


def lines_in_windows(lines: list[str]) -> list[tuple[str, str]]:
    """Every line with 80 spaces before it, as older versions of LEAF have it."""
    return [sample for line in lines for sample in windows(" " * 80 + line + "\n")]


@pytest.mark.parametrize(
    ("lines", "border", "begin"),
    [
        ([399, 99], 400, 400),  # 500 samples: the border is where a line begins
        ([449, 49], 400, 450),  # in a line, of which 50 samples are left: the next one begins after them
        ([299, 199], 400, 480),  # in a line that goes on for longer than 80
        ([9] * 50, 400, 400),
        ([6] * 50, 280, 280),  # 350 samples, seven of each line
        ([5, 0, 3, 0], 9, 11),  # of 12 samples, the tenth and the eleventh are of the third line
    ],
)
def test_leaf_line_by_line_is_split_without_a_common_character(
    tmp_path: Path, lines: list[int], border: int, begin: int
) -> None:
    texts = [prose(number, length).replace("\n", ".") for number, length in enumerate(lines)]
    some = lines_in_windows(texts)
    decoded = read(put(tmp_path / "all_data.json", leaf({"LEAR": some})))
    assert sorted(samples(decoded, decoded.train)) == sorted(("LEAR", *sample) for sample in some[:border])
    assert sorted(samples(decoded, decoded.test)) == sorted(("LEAR", *sample) for sample in some[begin:])
    # by a plain loop: which characters of which line a sample has, without the spaces before
    places = [
        {(number, at) for at in range(first - 80, first + 1) if at >= 0}
        for number, text in enumerate(texts)
        for first in range(len(text) + 1)
    ]
    trained = set().union(*places[:border])
    assert not any(place & trained for place in places[begin:])
    assert begin == border or places[begin - 1] & trained


@pytest.mark.parametrize("lined", [False, True])
@pytest.mark.parametrize("change", ["shuffled", "swapped", "left out", "reversed", "another letter"])
def test_leaf_in_another_order_is_refused(tmp_path: Path, change: str, lined: bool) -> None:
    text = prose(8, 700).replace("\n", ".")
    some = lines_in_windows([text[:300], text[300:]]) if lined else windows(text)
    at = 150
    if change == "shuffled":
        random.Random(0).shuffle(some)
    elif change == "swapped":
        some[at : at + 2] = some[at : at + 2][::-1]
    elif change == "left out":
        del some[at]
    elif change == "reversed":
        some.reverse()
    else:
        some[at - 1] = (some[at - 1][0], "!")
    first = "1" if change in ("shuffled", "reversed") else str(at)
    said = rf"all_data\.json is not accepted: .* of user 'LEAR' in the order of the text.* sample {first} \(count"
    users = {"FOOL": windows(prose(9, 300)), "LEAR": some}
    with pytest.raises(InputError, match=said):
        read(put(tmp_path / "all_data.json", leaf(users)))
    # with a test part of its own, the order says nothing
    put(tmp_path / "own/train/a.json", leaf(users))
    put(tmp_path / "own/test/a.json", leaf(users))
    assert len(read(tmp_path / "own").train.targets) == 220 + len(some)


def test_a_user_of_two_files_is_refused(tmp_path: Path) -> None:
    text = prose(8, 700)
    put(tmp_path / "all_data_0.json", leaf({"LEAR": windows(text[:400])}))
    put(tmp_path / "all_data_1.json", leaf({"FOOL": windows(prose(9, 300)), "LEAR": windows(text[320:])}))
    with pytest.raises(InputError, match=r"all_data_1\.json .*every user in one file only, but 'LEAR' was in another"):
        read(tmp_path)


GOOD = leaf({"LEAR": windows(prose(8, 300))})


def changed(**fields: Any) -> dict[str, Any]:
    return {**GOOD, **fields}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe\xfa", "a json file"),
        (b"3", "users, each once, with num_samples and user_data of each"),
        (b"[]", "a role with 81 characters"),
        (changed(users=[[]]), "users, each once"),
        (changed(users=["LEAR", "LEAR"], num_samples=[220, 220]), "users, each once"),
        (changed(user_data={"LEAR": []}), "users, each once"),
        (changed(num_samples=["220"]), "'220' strings of 80 characters in 'x' of user 'LEAR', as num_samples says"),
        (changed(num_samples=[219]), "219 strings of 80 characters in 'x' of user 'LEAR', as num_samples says"),
        (leaf({"LEAR": [("short", "a")]}), "1 strings of 80 characters in 'x' of user 'LEAR'"),
        (leaf({"LEAR": [("x" * 80, "ab")]}), "1 strings of 1 characters in 'y' of user 'LEAR'"),
        (leaf({"LEAR": windows(prose(1, 100))}), "to train on and one to test on, but there is none"),
        ([1], "objects with play, role and text, a string or several, but number 1 is another"),
        ([ROLES[0], {"play": "a", "role": "b"}], "but number 2 is another"),
        ([ROLES[0], {"play": "a", "role": "b", "text": ["c", 4]}], "but number 2 is another"),
        ([ROLES[0], ROLES[0]], "every role once, but 'hamlet: Hamlet' occurs twice"),
        ([ROLES[3]], "a role with 81 characters"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read(put(tmp_path / "mine.json", content))
    assert str(caught.value).startswith(f"{tmp_path / 'mine.json'} is not accepted: expected ")
    assert sentence in str(caught.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train/\*\.json and test/\*\.json .* in it or in data, .*but there is none"):
        find_shakespeare(tmp_path)
    with pytest.raises(InputError, match=r"x is not accepted: expected train/"):
        find_shakespeare(tmp_path / ("x" * 5000))
    put(tmp_path / "train/a.json", GOOD)
    with pytest.raises(InputError, match=r"in train and in test, but there is none in test"):
        find_shakespeare(tmp_path)
    put(tmp_path / "test/a.json", ROLES)
    with pytest.raises(InputError, match=r"test/a\.json is not accepted: .* and user_data of each"):
        read(tmp_path)
    put(tmp_path / "mixed/a.json", ROLES)
    put(tmp_path / "mixed/b.json", GOOD)
    with pytest.raises(InputError, match=r"either excerpts as LEAF writes them or texts by role, but there are both"):
        read(tmp_path / "mixed")
    put(tmp_path / "bytes/HAMLET_GHOST.txt", b"abc\xff")
    with pytest.raises(InputError, match=r"HAMLET_GHOST\.txt is not accepted: expected text in UTF-8, but byte 3"):
        read(tmp_path / "bytes")


# ------------------------------------------------------------------------------------------------ characters as numbers

# as published, models/utils/language_utils.py of LEAF
LEAF = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"


def test_the_vocabulary_is_that_of_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    alphabet = Alphabet(LETTERS, nearest)
    assert LETTERS == LEAF
    assert len(LETTERS) == len(set(alphabet.names)) == 80
    assert all(name.isprintable() for name in alphabet.names)
    assert alphabet.numbers(LEAF).tolist() == list(range(80))
    assert not alphabet.replaced
    text = "To be, or nöt to be. " * 50
    whole = alphabet.numbers(text)
    monkeypatch.setattr(shakespeare, "AT_ONCE", 7)  # in pieces
    assert alphabet.numbers(text).tolist() == whole.tolist()
    assert alphabet.replaced == {"ö": 100}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("“Ay,” quoth’he—no", '"Ay," quoth\'he-no'),
        ("façade æther ſ", "facade ather s"),
        ("a\tb\u00a0c\rd", "a b c\nd"),
        ("£5 中 😀 \ud800", " 5      "),
        ("a\u0301 \u0000~", "a    "),
    ],
)
def test_other_characters(written: str, read: str) -> None:
    assert "".join(LEAF[number] for number in Alphabet(LETTERS, nearest).numbers(written)) == read


@hypothesis_settings(max_examples=50)
@given(st.text(st.characters(), max_size=50))
def test_any_text_keeps_its_length_and_what_is_known(text: str) -> None:
    found = Alphabet(LETTERS, nearest).numbers(text)
    assert len(found) == len(text)
    assert all(number < 80 for number in found)
    assert all(LEAF[number] == letter for number, letter in zip(found, text, strict=True) if letter in LEAF)
    assert all(near in LEAF for near in map(nearest, text))
