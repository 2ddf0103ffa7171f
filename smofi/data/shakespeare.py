"""Shakespeare by speaking role: 80 characters in, the next one out. Three layouts are read:

LEAF      train/*.json and test/*.json, or all_data*.json: excerpts by user, already cut out
roles     *.json or *.json.gz, a list of {"play": ..., "role": ..., "text": ...}
texts     PLAY_ROLE.txt, a file per role
"""

from __future__ import annotations

import os
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split, every_hundredth
from smofi.data.outside import check_room, listing, printable, read_bytes, read_json, wrong
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# Text as numbers: of any alphabet, and of the LEAF benchmark's 80 characters in its order.

LETTERS = "\n !\"&'(),-." + string.digits + ":;>?" + string.ascii_uppercase + "[]" + string.ascii_lowercase + "}"
LENGTH = 80
"""Characters of a sample, of which the model answers the next one. That there are 80 of either is chance."""

OTHER = "\ufffd"
"""Stands for every character that is not in an alphabet of the user's texts."""

AT_ONCE = 2**20
"""Characters that are looked up at once: each takes eight bytes of memory meanwhile."""

NEAREST = {
    "\t": " ", "\r": "\n", "\u2028": "\n", "\u2029": "\n", "\v": "\n", "\f": "\n", "\x85": "\n",
    "‘": "'", "’": "'", "‚": ",", "‛": "'", "`": "'", "´": "'", "′": "'", "ʼ": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"', "«": '"', "»": '"', "‹": "'", "›": "'",
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-", "_": "-",
    "{": "[", "<": "[", "Æ": "A", "æ": "a", "Œ": "O", "œ": "o", "Ø": "O", "ø": "o", "ß": "s", "Þ": "T", "þ": "t",
    "Ð": "D", "ð": "d", "Ł": "L", "ł": "l", "ſ": "s",
}  # fmt: skip


def nearest(letter: str) -> str:
    """Return the character of the 80 that comes nearest to another one, a space if none does."""
    if letter in NEAREST:
        return NEAREST[letter]
    # é is an e and an accent, … is three points
    plain = unicodedata.normalize("NFKD", letter)[0]
    return plain if plain in LETTERS else NEAREST.get(plain, " ")


class Alphabet:
    """Characters as numbers; `replaced` counts all others, which become what `near` returns for them."""

    def __init__(self, letters: str, near: Callable[[str], str]) -> None:
        self.letters, self.near = letters, near
        self.replaced: Counter[str] = Counter()
        # the number of each character up to the last one known, -1 if it has none, and -1 for all beyond
        self.table = np.full(max(map(ord, letters)) + 2, -1, np.int16)
        self.table[[ord(letter) for letter in letters]] = np.arange(len(letters))
        if OTHER in letters:
            self.table[ord(OTHER)] = -1

    @property
    def names(self) -> tuple[str, ...]:
        """The characters as a list shows them: those that cannot be seen by their escapes."""
        return tuple(map(shown, self.letters))

    def numbers(self, text: str) -> Array:
        """Return the number of each character, uint8.

        >>> Alphabet(LETTERS, nearest).numbers("né中").tolist() == [LETTERS.index(letter) for letter in "ne "]
        True
        """
        if len(text) > AT_ONCE:
            return np.concatenate([self.numbers(text[at : at + AT_ONCE]) for at in range(0, len(text), AT_ONCE)])
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        found: Array = self.table[np.minimum(codes, len(self.table) - 1)]
        if (strange := found < 0).any():
            self.replaced.update(map(chr, codes[strange]))
            distinct, inverse = np.unique(codes[strange], return_inverse=True)
            found[strange] = np.array([self.letters.index(self.near(chr(code))) for code in distinct])[inverse]
        return found.astype(np.uint8)


def shown(letter: str) -> str:
    """Return a character, or its escape if it cannot be seen."""
    return letter if letter.isprintable() else repr(letter)[1:-1]


# --------------------------------------------------------------------------------------------------------------------
# Excerpts that the LEAF benchmark has cut out already: {users, num_samples, user_data: {user: {x: [80], y: [1]}}}.

SPACE = LETTERS.index(" ")


class Excerpts:
    """Excerpts and the character after each, user by user, to train on and to test on."""

    def __init__(self) -> None:
        self.alphabet = Alphabet(LETTERS, nearest)
        self.owners: dict[str, int] = {}
        self.blocks: dict[str, list[tuple[int, Array, Array]]] = {"train": [], "test": []}

    def add(self, document: Any, path: Path, split: str | None, progress: ReadProgress) -> None:
        """Add a file's users to a split; if it is None, the first 80 % of each are to train on, the rest to test on."""
        users = _users(document, path)
        for done, (user, *columns) in enumerate(users, 1):
            letters, targets = (self.alphabet.numbers("".join(column)) for column in columns)
            inputs = letters.reshape(-1, LENGTH)
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
        return decoded_text(train, test, self.owners, self.alphabet, NEAREST_INPUT)


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

NEAREST_INPUT = {"nearest": NEAREST, "decompose": "NFKD", "unknown": " "}
"""What `nearest` does, as facts."""


def read_text(path: Path) -> str:
    """Read a file as text."""
    try:
        return read_bytes(path, MOST_TEXT, "a text").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong(path, f"text in UTF-8, but byte {error.start:,} is not")


class Texts:
    """Texts of owners, to train on and to test on."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, str | None]] = []
        self.owners: dict[str, int] = {}
        self.characters = self.too_short = 0

    def add(self, owner: str, text: str, path: Path, split: str | None = None) -> None:
        """Add a text to a split; if it is None, the first 80 % are to train on and the rest to test on.

        The end of a line becomes one character, and so does a letter with its accents.
        """
        text = text.replace("\r\n", "\n")
        text = text if text.isascii() else unicodedata.normalize("NFC", text)
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS:
            wrong(path, f"at most {MOST_CHARACTERS:,} characters in all, but there are more")
        check_room(path, CHARACTER * self.characters, f"{self.characters:,} characters take {CHARACTER} bytes each")
        self.texts.append((owner, text, split))

    def training(self) -> list[str]:
        """Return what is to train on."""
        return [
            text if split else text[: len(text) * 4 // 5] for _, text, split in self.texts if split in (None, "train")
        ]

    def splits(self, alphabet: Alphabet, order: str, folder: Path, one: str) -> tuple[Split, Split]:
        """Return the samples to train on and those to test on, each shuffled; `one` is what an error calls a text."""
        pieces: dict[str, list[tuple[int, Array]]] = {"train": [], "test": []}
        for owner, text, split in self.texts:
            end = len(text) * 4 // 5 if split is None else len(text)
            if end <= LENGTH:
                self.too_short += 1
                continue
            letters, number = alphabet.numbers(text), self.owners.setdefault(owner, len(self.owners))
            pieces[split or "train"].append((number, letters[:end]))
            if len(letters) - end > LENGTH:
                pieces["test"].append((number, letters[end:]))
        if not pieces["train"] or not pieces["test"]:
            wrong(folder, f"a {one} with {LENGTH + 1} characters in its first 80 % and in the rest, but there is none")
        shuffled = generator(0, order)
        return _excerpts(pieces["train"], shuffled), _excerpts(pieces["test"], shuffled)


def _excerpts(texts: list[tuple[int, Array]], order: np.random.Generator) -> Split:
    long = np.concatenate([text for _, text in texts])
    counts = [len(text) - LENGTH for _, text in texts]
    begins = np.cumsum([0, *(len(text) for _, text in texts)])
    rows = np.concatenate([np.arange(count) + begin for count, begin in zip(counts, begins, strict=False)])
    owner = np.repeat(np.array([who for who, _ in texts], np.int32), counts)
    shuffled = order.permutation(len(rows))
    rows = rows[shuffled]
    return Split(long, long[rows + LENGTH].astype(np.int64), owner[shuffled], rows)


def decoded_text(
    train: Split,
    test: Split,
    owners: Iterable[str],
    alphabet: Alphabet,
    others: Mapping[str, Any],
    about: dict[str, str] | None = None,
) -> Decoded:
    """Return samples of 80 characters as a data set; `others` says what characters outside the alphabet become."""
    known = {"length": LENGTH, "alphabet": alphabet.letters, "normalise": "NFC"}
    raw_input = {"kind": "text", **known, **others, "type": "int64"}
    called = tuple(map(printable, owners))
    return Decoded("text", train, test, alphabet.names, called, False, LENGTH, about or {}, raw_input)


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
    excerpts, texts, roles = Excerpts(), Texts(), set[str]()

    def add(name: str, text: str, path: Path) -> None:
        if name in roles:
            wrong(path, f"every role once, but {printable(name)!r} occurs twice")
        roles.add(name)
        texts.add(name, text, path)

    for index, (path, split) in enumerate(files):
        report = every_hundredth(partial(_tell, progress, index, len(files)))
        if path.suffix == ".txt":
            # HAMLET_OPHELIA is HAMLET: OPHELIA; with more than one underscore, it is not known where the play ends
            add(path.stem.replace("_", ": ") if path.stem.count("_") == 1 else path.stem, read_text(path), path)
            report(1, 1)
            continue
        document = read_json(path, MOST_UNPACKED if path.suffix == ".gz" else MOST_JSON, "a json file")
        if split is None and isinstance(document, list):
            for number, entry in enumerate(document, 1):
                add(*_role(entry, number, path), path)
                report(number, len(document))
        else:
            excerpts.add(document, path, split, report)
        del document  # before the next one is read
    if excerpts.owners and roles:
        wrong(folder, "either excerpts as LEAF writes them or texts by role, but there are both")
    if excerpts.owners:
        return excerpts.decoded(folder)
    train, test = texts.splits(excerpts.alphabet, "shakespeare order", folder, "role")
    return decoded_text(train, test, texts.owners, excerpts.alphabet, NEAREST_INPUT)


def _tell(progress: ReadProgress, index: int, files: int, done: int, total: int) -> None:
    """Report progress within one of several files."""
    progress(100 * index + 100 * done // total, 100 * files)


def _role(entry: Any, number: int, path: Path) -> tuple[str, str]:
    """Return the name of a role and its text."""
    known: dict[str, Any] = entry if isinstance(entry, dict) else {}
    play, role, text = (known.get(name) for name in ("play", "role", "text"))
    speeches: list[Any] = text if isinstance(text, list) else [text]
    named = isinstance(play, str) and isinstance(role, str) and play and role
    if not named or not all(isinstance(speech, str) for speech in speeches):
        wrong(path, f"objects with play, role and text, a string or several, but number {number:,} is another")
    return f"{play}: {role}", "\n".join(speeches)


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
