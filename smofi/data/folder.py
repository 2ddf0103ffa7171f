"""Read the user's own folder: pictures, recordings, texts or idx files, whichever lie in it.

The folders that files lie in, or a list, clients.csv, say which are samples, of which class each is and whose.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, every_hundredth, named_split
from smofi.data.idx_files import find_idx, idx_prefix
from smofi.data.outside import Listing, check_room, listing, printable, regular_size, wrong
from smofi.data.pictures import (
    LARGE,
    SUFFIXES,
    WORKING,
    map_with_progress,
    picture_input,
    read_picture,
    read_picture_header,
    suffixes,
)
from smofi.data.shakespeare import LENGTH, OTHER, Alphabet, Texts, decoded_text, read_text, shown
from smofi.data.sound import (
    AT_ONCE,
    BANDS,
    BETA,
    RATE,
    ROLLOFF,
    SOUND_INPUT,
    WINDOW,
    ZEROS,
    Samples,
    as_floats,
    frames_in,
    images_of,
    reach,
    read_recording,
    resampled,
)
from smofi.data.tables import LABELS, LEAST_CLASSES, OWNERS, read_table, say_held_out
from smofi.errors import check_count
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# The samples that lie in a folder: which files they are, to train on or to test on, of which class and whose.

OTHER_PROGRAMS = ("thumbs.db", "desktop.ini")
"""Files that other programs put into folders of pictures: not counted as left out."""

NO_TEXTS = ("readme.txt", "license.txt", "licence.txt")
"""Texts about the others, and no client's."""


@dataclass(frozen=True)
class Medium:
    """A kind of sample: a word for one and for several, how their names end, and if they have classes."""

    one: str
    many: str
    suffixes: tuple[str, ...]
    labelled: bool = True

    def has(self, path: Path) -> bool:
        """Tell by its name whether a file is one."""
        name = path.name.lower()
        return name.endswith(self.suffixes) and (self.labelled or name not in NO_TEXTS)


PICTURES = Medium("picture", "pictures", SUFFIXES)
RECORDINGS = Medium("recording", "recordings", (".wav", ".wave"))
TEXTS = Medium("text", "texts", (".txt",), labelled=False)


@dataclass(frozen=True)
class Item:
    """A file, and what is known about it; `label` and `client` are empty where there are none."""

    path: Path
    label: str
    client: str = ""


@dataclass(frozen=True)
class Found:
    """The files to train on and those to test on; where the latter come from, and what is left out.

    Of texts without a test set of their own, `test` is empty: the end of each is for the test.
    """

    medium: Medium
    train: list[Item]
    test: list[Item]
    about: dict[str, str] = field(default_factory=dict)
    others: tuple[Path, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """All files that were looked at."""
        return [*(item.path for item in (*self.train, *self.test)), *self.others]


def with_test(found: Found, root: Path, instead: str = "a folder test beside a folder train") -> Found:
    """Check the files, and make a test set if there is none; `root` is where those to train on lie, and `instead` what
    would be a test set of the user's own."""
    medium, train, test = found.medium, found.train, found.test
    classes = {item.label for item in train}
    if medium.labelled and len(classes) < LEAST_CLASSES.get():
        inside = " in the folders of the clients" if train[0].client else ""
        wrong(root, f"two classes or more, a sub-folder each{inside}, but there is only {min(classes)!r}")
    if not test:
        if not medium.labelled:
            own = f"the last fifth of every text; to choose the test set yourself, add {instead}"
            return replace(found, about={"test": own, **found.about})
        kept, held_out = _hold_out(train, medium, root)
        return replace(
            found, train=kept, test=held_out, about={"test": say_held_out(medium.many, instead), **found.about}
        )
    if test[0].client and not train[0].client:
        wrong(
            test[0].path,
            f"a {medium.one} in a class folder, as in {train[0].path}; the test set may have clients only if the "
            "training set does",
        )
    for item in test:
        if item.label not in classes:
            wrong(item.path, f"a class that is in {root} too, but {item.label!r} is not")
    return found


def left_out(paths: Iterable[Path], what: str, one: str = "") -> list[str]:
    """Say how many files are not read, if any, and how their names end; `one` is how it is said of a single file."""
    some = [path for path in paths if path.name.lower() not in OTHER_PROGRAMS]
    if not some:
        return []
    counts = Counter(printable(path.suffix.lower() or path.name)[:40] for path in some).most_common(5)
    listed = ", ".join(f"{ending} ({count:,})" for ending, count in counts)
    return [f"{len(some):,} files {what}: {listed}" if len(some) > 1 else f"1 file {one or what}: {listed}"]


def _hold_out(items: list[Item], medium: Medium, folder: Path) -> tuple[list[Item], list[Item]]:
    """Choose a fifth of every class for the test, at least one of two; every client keeps something to train on."""
    chosen: set[int] = set()
    left = Counter(item.client for item in items)
    draw = generator(0, "folder test")
    for label in sorted({item.label for item in items}):
        rows = [row for row, item in enumerate(items) if item.label == label]
        wanted = max(1, round(len(rows) / 5)) if len(rows) > 1 else 0
        for row in draw.permutation(rows):
            client = items[row].client
            if wanted and left[client] > 1:
                chosen.add(int(row))
                left[client] -= 1
                wanted -= 1
    if not chosen:
        wrong(folder, f"at least two {medium.many} of some class, or a folder test beside train")
    train = [item for row, item in enumerate(items) if row not in chosen]
    return train, [items[row] for row in sorted(chosen)]


# --------------------------------------------------------------------------------------------------------------------
# Which files of a folder are samples, of which class each is and whose, by the folders it lies in.

TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")
"""In any case of letters; if there are several, the first of these is the test set, and the others are left alone."""


def by_folders(folder: Path, listed: Listing) -> Found:
    """Find all samples in a folder, without listing a folder twice."""
    train_folder, test_folders = train_and_tests(folder, listed[0])
    roots = [train_folder, *test_folders[:1]]
    trees = [walk(listed if root == folder else listing(root)) for root in roots]
    medium = medium_of(folder, [path for _, files in trees for path in files])
    train, *tests = (_items(root, tree, medium) for root, tree in zip(roots, trees, strict=True))
    others = [path for _, files in trees for path in files if not medium.has(path)]
    said = [f"folder {path.name}/" for path in test_folders[1:]]
    said += left_out(others, f"that are not {medium.many}", f"that is not a {medium.one}")
    said += left_out(listed[1] if train_folder != folder else [], "outside the folders")
    about = {"left_out": "; ".join(said)} if said else {}
    if tests:
        about = {"test": f"folder {test_folders[0].name}/", **about}
    return with_test(Found(medium, train, tests[0] if tests else [], about), train_folder)


def train_and_tests(folder: Path, inside: list[Path]) -> tuple[Path, list[Path]]:
    """Find where the files to train on are, and those to test on; the first of several such folders counts."""
    names = {path.name.lower(): path for path in inside}
    trains = [names.pop(name) for name in TRAIN_FOLDERS if name in names]
    tests = [names.pop(name) for name in TEST_FOLDERS if name in names]
    others = [path.name for path in names.values()]
    if len(trains) == 1 and not others:
        return trains[0], tests
    if trains and tests:
        odd = [*others, *(path.name for path in trains[1:])][0]
        wrong(folder, f"only {trains[0].name} and {tests[0].name}, but there is {odd} too")
    if tests and not others:
        wrong(folder, f"a folder train beside {tests[0].name}")
    return folder, []  # classes or clients, one of which may well be called train


def medium_of(root: Path, files: list[Path]) -> Medium:
    """Tell what the files are; other kinds of files may lie among them, but not pictures among recordings."""
    first = {medium: path for medium in (PICTURES, RECORDINGS, TEXTS) for path in reversed(files) if medium.has(path)}
    if PICTURES in first and RECORDINGS in first:
        both = f"{first[PICTURES].relative_to(root.parent)} and {first[RECORDINGS].relative_to(root.parent)}"
        wrong(root, f"pictures or recordings, but there are both, such as {both}: give each a folder of its own")
    for medium in first:
        return medium
    classes = f"pictures ({', '.join(PICTURES.suffixes)}) or recordings (.wav) in a sub-folder per class"
    wrong(root, f"{classes}, or texts (.txt), but it has {suffixes(files)}")


def _items(root: Path, tree: Listing, medium: Medium) -> list[Item]:
    """List the samples below a folder, equally deep: in class folders, or in class folders of clients; texts in it or
    in folders of clients."""
    folders, files = tree
    found = [path for path in files if medium.has(path)]
    if not found:
        wrong(root, f"{medium.many} ({', '.join(medium.suffixes)}), but it has {suffixes(files)}")
    above, classes = len(root.parts), int(medium.labelled)
    depth = len(found[0].parts) - above
    places = "all in class folders, or all in class folders of clients" if classes else "all in folders of clients"
    for path in found:
        if len(path.parts) != above + depth:
            wrong(path, f"a {medium.one} as deep as {found[0]}: {places}{'' if classes else ', or all in none'}")
    if not 1 <= depth - classes <= 2:
        inside = "per class, or per client and in it per class" if classes else "per client"
        wrong(found[0], f"a {medium.one} in a sub-folder of {root} {inside}")
    items = []
    for path in found:
        parts = path.parts[above:]
        whose = parts[0] if depth > 1 + classes else "" if classes else path.stem
        items.append(Item(path, parts[-2] if classes else "", whose))
    # every class and every client has files; that a client has none of some class is fine
    labels, clients = {item.label for item in items}, {item.client for item in items}
    outer, used = {path.parent for path in folders}, {parent for item in items for parent in item.path.parents}
    for path in folders:
        *client, label = path.parts[above:]
        known = label in labels and len(client) == 1 and client[0] in clients
        if path not in used and path not in outer and not known:
            wrong(path, f"{medium.many} in this folder, but there are none")
    return items


def walk(listed: Listing, deepest: int = 4) -> Listing:
    """Return all folders and all files below a folder that was listed."""
    if listed[0] and deepest == 1:
        wrong(listed[0][0], "no folder nested as deeply as this one")
    folders, files = list(listed[0]), list(listed[1])
    for path in listed[0]:
        below = walk(listing(path), deepest - 1)
        folders += below[0]
        files += below[1]
    return folders, files


# --------------------------------------------------------------------------------------------------------------------
# Samples listed in a file: clients.csv in their folder says whose each is, and perhaps its class and what it is for.

LIST = "clients.csv"
BYTE = 20
"""Memory for a byte of the list."""


@dataclass(frozen=True)
class Entry:
    """A line of the list; `label` and `split` are empty where there is no such column."""

    line: int
    client: str
    label: str
    split: str


def by_list(folder: Path, inside: Listing) -> Found:
    """Find the samples that the list in a folder names; all other files are left out."""
    path = folder / LIST
    entries = read_list(path)
    train_folder, test_folders = train_and_tests(folder, inside[0])
    files = {file.relative_to(folder).as_posix(): file for file in walk(inside)[1]}
    for name, entry in entries.items():
        if name not in files:
            wrong(path, f"files that are in {folder}, but {name!r:.200} of line {entry.line} is not")
    medium = medium_of(folder, [files[name] for name in entries])
    train: list[Item] = []
    test: list[Item] = []
    for name, entry in entries.items():
        file = files[name]
        if not medium.has(file):
            wrong(path, f"{medium.many} only, but {name!r:.200} of line {entry.line} is something else")
        if entry.label and not medium.labelled:
            wrong(path, "no column label: a text has no class, as the next character is what is learned")
        label = entry.label or file.parent.name if medium.labelled else ""
        if medium.labelled and not entry.label and file.parent in (folder, train_folder, *test_folders):
            wrong(path, f"a column label, as {file} lies in no folder that could be its class")
        testing = entry.split == "test" if entry.split else any(place in file.parents for place in test_folders)
        (test if testing else train).append(Item(file, label, entry.client))
    if not train:
        wrong(path, "files to train on, but all are for the test")
    said = left_out([file for name, file in files.items() if name not in entries and file != path], "not in the list")
    about = {"test": f"what {LIST} or a folder says is for the test"} if test else {}
    about |= {"left_out": said[0]} if said else {}
    return with_test(Found(medium, train, test, about, others=(path,)), folder, f"a column split to {LIST}")


def read_list(path: Path) -> dict[str, Entry]:
    """Read the lines of a list, by file."""
    size = regular_size(path, "a list of files")
    check_room(path, BYTE * size, f"it takes {BYTE} x {size:,} bytes")
    header, lines = read_table(path, lambda done: None)
    file, client = header.find(("file", "path")), header.find(OWNERS)
    label, split = header.find(LABELS), header.find(("split",))
    if file is None or client is None:
        wrong(path, f"a column file and a column client, perhaps label and split, but the columns are {header}")
    entries: dict[str, Entry] = {}
    for line, row in lines:
        name = header.word(row, file, line).removeprefix("./")
        if name in entries:
            wrong(path, f"every file once, but {name!r:.200} is in line {entries[name].line} and in line {line}")
        entries[name] = Entry(
            line,
            header.word(row, client, line),
            "" if label is None else header.word(row, label, line),
            "" if split is None else header.split(row, split, line),
        )
    if not entries:
        wrong(path, "a line for each file below the names of the columns, but there is none")
    return entries


# --------------------------------------------------------------------------------------------------------------------
# The user's own texts, next character: 80 characters in, the next one out, over the alphabet of the texts themselves.

MOST_LETTERS = 255


def alphabet_of(texts: Iterable[str]) -> Alphabet:
    """Take the characters that occur most often, in the order of their codes, and before them one for all others."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    del counts[OTHER]
    often = sorted(counts, key=lambda letter: (-counts[letter], letter))[:MOST_LETTERS]
    return Alphabet(OTHER + "".join(sorted(often)), lambda letter: OTHER)


def read_texts(folder: Path, found: Found, progress: ReadProgress) -> Decoded:
    """Read the texts of all clients as samples of 80 characters and the next one."""
    texts, items = Texts(), [*found.train, *found.test]
    for number, item in enumerate(items):
        split = "test" if number >= len(found.train) else "train" if found.test else None
        texts.add(item.client, read_text(item.path), item.path, split)
        progress(number + 1, len(items))
    alphabet = alphabet_of(texts.training())
    train, test = texts.splits(alphabet, "texts order", folder, "text")
    if alphabet.letters == OTHER:
        wrong(folder, f"texts to train on with other characters than {OTHER}, which stands for unknown ones")
    about, count = dict(found.about), len(alphabet.letters) - 1
    if texts.too_short:
        several = "s" * (texts.too_short > 1)
        short = f"{texts.too_short:,} text{several} too short for {LENGTH} characters and the next one"
        about["left_out"] = "; ".join([*([about["left_out"]] if "left_out" in about else []), short])
    remark = f"alphabet: the {count} character{'s' * (count > 1)} of the training texts, and one for all others"
    if alphabet.replaced:
        some = " ".join(shown(letter) for letter, _ in alphabet.replaced.most_common(5))
        replaced = f"{alphabet.replaced.total():,} of {texts.characters:,} characters"
        remark += f", which replaces {replaced}, such as {some}"
    # as for the official texts, but nothing near takes the place of an unknown character
    others: dict[str, Any] = {"nearest": {}, "decompose": None, "unknown": OTHER}
    return decoded_text(train, test, texts.owners, alphabet, others, {**about, "remark": remark})


# --------------------------------------------------------------------------------------------------------------------
# The user's own pictures: all of one size, or each brought to a square; grey if all are, else in colour.


def decode_pictures(
    paths: list[Path], image_size: int | None, folder: Path, progress: ReadProgress
) -> tuple[Array, dict[str, Any]]:
    """Decode all pictures, `[pictures, height, width, channels]`; say what was done to them.

    Resized, the shorter side becomes `image_size` and the middle is kept.
    """
    headers = map_with_progress(read_picture_header, paths, progress, total=2 * len(paths))
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if image_size is None and (header.width, header.height) != (first.width, first.height):
            size = f"{first.width} x {first.height} pixels as in {paths[0]}"
            wrong(path, f"{size}, but it has {header.width} x {header.height}: set image_size to resize all pictures")
    height, width = (image_size, image_size) if image_size else (first.height, first.width)
    grey = all(header.grey for header in headers)
    shape = (len(paths), height, width, 1 if grey else 3)
    largest = max(header.width * header.height for header in headers)
    check_room(
        folder,
        math.prod(shape) + WORKING * largest,
        f"its pictures take {shape[0]:,} x {height:,} x {width:,} x {shape[3]} bytes (less with a smaller image_size) "
        f"+ {WORKING} x {largest:,} while they are decoded",
    )
    images = np.empty(shape, np.uint8)

    def decode(row: int) -> None:
        image = read_picture(paths[row], grey=grey, upright=True, side=image_size)
        if image.shape != shape[1:]:
            wrong(paths[row], "a picture that does not change while it is read")
        images[row] = image

    large = sum(header.width * header.height for header in headers) >= LARGE * len(headers)
    map_with_progress(decode, range(len(paths)), progress, threads=large, done=len(paths), total=2 * len(paths))
    return images, picture_input(shape[1:], upright=True, side=image_size)


# --------------------------------------------------------------------------------------------------------------------
# The user's own recordings, as log-mel images: any rate, any number of channels, any length.

LONGEST = 10 * RATE
WORKING_ON_SOUND = 64
"""Bytes of memory for a sample, while its recording becomes an image."""


def decode_recordings(
    paths: list[Path], training: int, folder: Path, progress: ReadProgress
) -> tuple[Array, dict[str, Any], str]:
    """Decode all recordings, `[recordings, frames, 40, 1]`; say what was done to them, and what is to be remarked on.

    The first ones, `training` of them, are those to train on.
    """
    report, rates, mixed = every_hundredth(progress), Counter[int](), 0
    lengths: list[int] = []  # at 16,000 samples a second
    for number, path in enumerate(paths, start=1):
        rate, samples = read_recording(path)
        rates[rate] += 1
        mixed += samples.ndim > 1 and samples.shape[1] > 1
        lengths.append(math.ceil(len(samples) * RATE / rate))
        report(number, 2 * len(paths))
    length = min(max(median_low(lengths[:training]), WINDOW), LONGEST)
    frames = frames_in(length)
    check_room(
        folder,
        len(paths) * frames * BANDS + AT_ONCE * WORKING_ON_SOUND * length,
        f"its recordings take {len(paths):,} x {frames:,} x {BANDS} bytes + {AT_ONCE} x {WORKING_ON_SOUND} x "
        f"{length:,} while they are decoded",
    )
    images = images_of(paths, partial(clip, length), length, lambda done, _: report(len(paths) + done, 2 * len(paths)))
    resample = {"kernel": "sinc, Kaiser window", "zeros": ZEROS, "rolloff": ROLLOFF, "beta": BETA}
    raw_input = {**SOUND_INPUT, "samples": length, "channels": "mean", "resample": resample}
    longer, shorter = (sum(sign * one > sign * length for one in lengths) for sign in (1, -1))
    said = [f"recordings: {length / RATE:g} s each, "]
    said[0] += "the median length" if length < LONGEST else "the most that is used of one"
    if longer:
        said.append(f"{longer:,} longer: their middle is used")
    if shorter:
        said.append(f"{shorter:,} shorter: with silence on either side")
    del rates[RATE]
    if rates:
        given = ", ".join(f"{rate:,} Hz ({count:,})" for rate, count in rates.most_common(3))
        said.append(f"resampled to {RATE:,} Hz: {given}")
    if mixed:
        said.append(f"{mixed:,} with several channels: mixed to one")
    return images, raw_input, "; ".join(said)


def clip(length: int, path: Path) -> Samples:
    """Return what it takes to have the middle of a recording, this long at 16,000 samples a second."""
    rate, samples = read_recording(path)
    steps = math.ceil(length * rate / RATE) + (2 * reach(rate) if rate != RATE else 0)
    count = min(len(samples), steps)
    begin = (len(samples) - count) // 2
    return resampled(as_floats(samples[begin : begin + count], path), rate)


# --------------------------------------------------------------------------------------------------------------------
# The user's own folder: pictures, recordings, texts or idx files, whichever lie in it.


def find_folder(folder: Path, image_size: int | None = None) -> DataFiles:
    """Find the user's own files. Pictures are all of one size, or each is brought to a square of `image_size`.

    A single text, or one file of several idx data sets in a folder, may be named instead of a folder.
    """
    if image_size is not None:
        check_count("image_size", image_size, high=4096)
    if os.path.isfile(folder) and TEXTS.has(folder):
        about = "the last fifth of the text; to choose the test set yourself, name a folder with train and test"
        found = Found(TEXTS, [Item(folder, "", folder.stem)], [], {"test": about})
        return DataFiles([folder], partial(read_texts, folder, found))
    if os.path.isfile(folder) and (prefix := idx_prefix(folder)) is not None:
        return find_idx(folder.parent, listing(folder.parent)[1], prefix)
    if not os.path.isdir(folder):
        wrong(folder, "a folder of pictures, recordings, texts or idx files")
    inside = listing(folder)
    if any(idx_prefix(path) is not None for path in inside[1]):
        return find_idx(folder, inside[1])
    found = by_list(folder, inside) if folder / LIST in inside[1] else by_folders(folder, inside)
    return DataFiles(found.paths, partial(_read, folder, found, image_size))


def _read(folder: Path, found: Found, image_size: int | None, progress: ReadProgress) -> Decoded:
    if found.medium is TEXTS:
        return read_texts(folder, found, progress)
    train, test = (
        [items[k] for k in generator(0, "folder order", number).permutation(len(items))]
        for number, items in enumerate((found.train, found.test))
    )
    paths = [item.path for item in train + test]
    if found.medium is RECORDINGS:
        images, raw_input, remark = decode_recordings(paths, len(train), folder, progress)
    else:
        images, raw_input, remark = *decode_pictures(paths, image_size, folder, progress), ""
    classes = sorted({item.label for item in train})
    training, testing = ({item.client for item in items if item.client} for items in (train, test))
    owners = sorted(training) + sorted(testing - training)  # those that are only in the test come last
    train_split, test_split = (
        named_split(some, [item.label for item in items], classes, [one.client for one in items if one.client], owners)
        for items, some in ((train, images[: len(train)]), (test, images[len(train) :]))
    )
    called, owned = tuple(map(printable, classes)), tuple(map(printable, owners))
    about = {**found.about, **({"remark": remark} if remark else {})}
    return Decoded("image", train_split, test_split, called, owned, about=about, raw_input=raw_input)
