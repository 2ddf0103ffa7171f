"""Shakespeare by speaking role: 80 characters in, the next one out. Three layouts are read:

LEAF      train/*.json and test/*.json, or all_data*.json: excerpts by user, already cut out
roles     *.json or *.json.gz, a list of {"play": ..., "role": ..., "text": ...}
texts     PLAY_ROLE.txt, a file per role
"""

from __future__ import annotations

import os
import string
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split, every_hundredth
from smofi.data.outside import check_room, listing, printable, read_bytes, read_json, wrong
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# Text as numbers below 80: the characters of the LEAF benchmark's Shakespeare, in its order.

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
    """Describe samples of this many characters, of which the model answers the next one: a reader's `raw_input`.

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
    """Counts of characters that are not among the 80: written as a near one, or, having none, as a space."""

    transliterated: int = 0
    blanked: int = 0

    def about(self) -> dict[str, int]:
        """Return the counts for the record."""
        return {"characters_transliterated": self.transliterated, "characters_blanked": self.blanked}


def nearest(letter: str) -> str | None:
    """Return the character of the 80 that comes nearest to another one, None if none does.

    >>> [nearest(letter) for letter in ("é", "“", "—", "中")]
    ['e', '"', '-', None]
    """
    if letter in NEAREST:
        return NEAREST[letter]
    # é is an e and an accent, … is three points
    plain = unicodedata.normalize("NFKD", letter)[0]
    return plain if plain in LETTERS and (plain != " " or letter.isspace()) else NEAREST.get(plain)


def numbers(text: str, changed: Changed) -> npt.NDArray[np.uint8]:
    """Return the number of each character; count those that had to become others in `changed`.

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


# --------------------------------------------------------------------------------------------------------------------
# Excerpts that the LEAF benchmark has cut out already: {users, num_samples, user_data: {user: {x: [80], y: [1]}}}.


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
        users = _users(document, path)
        for done, (user, x, y) in enumerate(users, 1):
            inputs, targets = numbers("".join(x), self.changed).reshape(-1, LENGTH), numbers("".join(y), self.changed)
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
        """Return all of them, each split shuffled."""
        order = generator(0, "shakespeare order")
        train, test = (_joined(self.blocks[name], order) for name in ("train", "test"))
        if not len(train.targets) or not len(test.targets):
            wrong(folder, f"an excerpt of {LENGTH} characters to train on and one to test on, but there is none")
        return _over_the_80(train, test, list(map(printable, self.owners)), self.changed.about())


def _over_the_80(train: Split, test: Split, owners: list[str], about: dict[str, int]) -> Decoded:
    raw_input = text_input(LENGTH)
    return Decoded("text", train, test, NAMES, tuple(owners), False, LENGTH, about, raw_input)


def _border(inputs: Array, targets: Array, user: str, path: Path) -> tuple[int, int]:
    """Return where the samples to train on end, and where those begin that have no character of theirs."""
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


def _users(document: Any, path: Path) -> list[tuple[str, list[str], list[str]]]:
    """Return the users of a document as LEAF writes it, each with excerpts and the character after each."""
    try:
        users, counts, data = (document[name] for name in ("users", "num_samples", "user_data"))
        found = [(user, data[user]["x"], data[user]["y"]) for user in users]
        good = isinstance(users, list) and isinstance(counts, list) and len(set(users)) == len(users) == len(counts)
    except (TypeError, LookupError):
        good = False
    if not good or not all(isinstance(user, str) for user in users):
        wrong(path, "users, each once, with num_samples and user_data of each: x and y, as LEAF writes them")
    for (user, x, y), count in zip(found, counts, strict=True):
        for name, strings, length in (("x", x, LENGTH), ("y", y, 1)):
            fits = isinstance(strings, list) and all(isinstance(one, str) and len(one) == length for one in strings)
            if not fits or len(strings) != count:
                expected = f"{count!r:.20} strings of {length} characters in {name!r} of user {printable(user)!r}"
                wrong(path, f"{expected}, as num_samples says, but it has others")
    return found


# --------------------------------------------------------------------------------------------------------------------
# Whole texts, of which any 80 characters in a row are a sample: one long text, and where samples begin.

MOST_CHARACTERS = 2**26
"""Twelve times all the plays of Shakespeare."""

MOST_TEXT = 2**26
"""Bytes of a file."""

CHARACTER = 40
"""Bytes of memory for a character: in rows, targets and owners, as they are and shuffled."""


def read_text(path: Path) -> str:
    """Read a file as `normal` text."""
    try:
        return normal(read_bytes(path, MOST_TEXT, "a text").decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        wrong(path, f"text in UTF-8, but byte {error.start:,} is not")


def normal(text: str) -> str:
    """Return a text with one character for the end of a line, and one for a letter with its accents.

    >>> normal("e\\u0301\\r\\n") == "é\\n"
    True
    """
    text = text.replace("\r\n", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def border(text: str) -> int:
    """Return where the part of a text to train on ends.

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
        """Return the samples to train on and those to test on, each shuffled; `one` is what an error calls a text."""
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


# --------------------------------------------------------------------------------------------------------------------
# The texts of shakespeare by role, each role once, over the 80 characters of LEAF.


class Roles:
    """Texts to train on and to test on, role by role."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.changed = Changed()
        self.characters = self.too_short = 0
        self.texts = Texts(lambda text: numbers(text, self.changed), "shakespeare order")

    def add(self, name: str, text: str, path: Path) -> None:
        """Add a role, unless its text is too short for a single sample."""
        if name in self.names:
            wrong(path, f"every role once, but {printable(name)!r} occurs twice")
        self.names.add(name)
        self.characters += len(text)
        check_characters(self.characters, path)
        self.too_short += not self.texts.add(name, normal(text))

    def decoded(self, folder: Path) -> Decoded:
        """Return all of them, the samples of each split shuffled."""
        train, test = self.texts.splits(folder, "role")
        owners, tested = self.texts.owners, self.texts.texts["test"]
        roles = {"roles": len(owners), "roles_too_short": self.too_short, "roles_to_test": len(tested)}
        return _over_the_80(train, test, owners, {**roles, **self.changed.about()})


# --------------------------------------------------------------------------------------------------------------------
# The files, in any of the three layouts.

MOST_JSON, MOST_UNPACKED = 2**30, 2**28
"""Bytes of a file. All of the plays are 5.6 million characters; the largest file LEAF writes has 400 MB."""

PLACES = ("", "data", "shakespeare", "shakespeare/data", "raw_data/by_play_and_character")
"""Where in the given folder the files may be: LEAF writes into the second and the last."""


def find_shakespeare(folder: Path) -> DataFiles:
    """Find excerpts by role in a folder, in one of LEAF's folders in it, or in a single file."""
    files = _find(folder)
    return DataFiles([path for path, _ in files], partial(_read, folder, files))


def _read(folder: Path, files: list[tuple[Path, str | None]], progress: ReadProgress) -> Decoded:
    excerpts, roles = Excerpts(), Roles()
    for index, (path, split) in enumerate(files):
        report = every_hundredth(partial(_tell, progress, index, len(files)))
        if path.suffix == ".txt":
            # HAMLET_OPHELIA is HAMLET: OPHELIA; with more than one underscore, it is not known where the play ends
            name = path.stem.replace("_", ": ") if path.stem.count("_") == 1 else path.stem
            roles.add(name, read_text(path), path)
            report(1, 1)
            continue
        document = read_json(path, MOST_UNPACKED if path.suffix == ".gz" else MOST_JSON, "a json file")
        if split is None and isinstance(document, list):
            _add_roles(roles, document, path, report)
        else:
            excerpts.add(document, path, split, report)
        del document  # before the next one is read
    if excerpts.owners and roles.names:
        wrong(folder, "either excerpts as LEAF writes them or texts by role, but there are both")
    return excerpts.decoded(folder) if excerpts.owners else roles.decoded(folder)


def _find(folder: Path) -> list[tuple[Path, str | None]]:
    """List the files and the split each belongs to, None if it has both."""
    if os.path.isfile(folder) and folder.name.endswith((".json", ".json.gz", ".txt")):
        return [(folder, None)]
    for place in (folder / name for name in PLACES):
        train, test = (_files(place / split, (".json", ".json.gz")) for split in ("train", "test"))
        if train and test:
            return [*((path, "train") for path in train), *((path, "test") for path in test)]
        if train or test:
            wrong(place, f"*.json in train and in test, but there is none in {'test' if train else 'train'}")
        here = _files(place, (".json", ".json.gz", ".txt"))
        loose = [path for path in here if path.suffix != ".txt"]
        whole = [path for path in loose or _files(place / "all_data", (".json",)) if path.name.startswith("all_data")]
        texts = [path for path in here if path.suffix == ".txt" and "_" in path.name]
        if both := whole or loose or texts:
            return [(path, None) for path in both]
    wrong(
        folder,
        "train/*.json and test/*.json or all_data*.json as LEAF writes them, a list of roles as *.json or *.json.gz, "
        f"or PLAY_ROLE.txt, in it or in {', '.join(PLACES[1:])}, but there is none",
    )


def _files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    files = listing(folder)[1] if os.path.isdir(folder) else []
    return [path for path in files if path.name.endswith(endings)]


def _add_roles(roles: Roles, document: list[Any], path: Path, progress: ReadProgress) -> None:
    for number, entry in enumerate(document, 1):
        known: dict[str, Any] = entry if isinstance(entry, dict) else {}
        play, role, text = (known.get(name) for name in ("play", "role", "text"))
        speeches: list[Any] = text if isinstance(text, list) else [text]
        named = isinstance(play, str) and isinstance(role, str) and play and role
        if not named or not all(isinstance(speech, str) for speech in speeches):
            wrong(path, f"objects with play, role and text, a string or several, but number {number:,} is another")
        roles.add(f"{play}: {role}", "\n".join(speeches), path)
        progress(number, len(document))


def _tell(progress: ReadProgress, index: int, files: int, done: int, total: int) -> None:
    """Report progress within one of several files."""
    progress(100 * index + 100 * done // total, 100 * files)
