"""The user's own pictures: a sub-folder per class; or one per client and in it one per class, if they are divided.

cat/1.png, dog/1.png                         a fifth of each class is kept for the test
train/cat/1.png, test/cat/1.png              test may also be called val, valid or validation
train/anna/cat/1.png, test/cat/1.png         clients; the test set may be divided too
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import Listing, check_room, listing, wrong
from smofi.data.formats.names import printable
from smofi.data.formats.pictures import (
    LARGE,
    SUFFIXES,
    WORKING,
    PictureHeader,
    is_picture,
    map_with_progress,
    picture_input,
    read_picture,
    read_picture_header,
    suffixes,
)
from smofi.errors import check_count
from smofi.seeds import generator

TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")
"""In any case of letters; if there are several, the first of these is the test set, and the others are left alone."""

OTHER_PROGRAMS = ("thumbs.db", "desktop.ini")
"""What other programs put into folders of pictures: not counted as left out."""


@dataclass(frozen=True)
class _Picture:
    """Where a picture lies, and what its folders say about it; `client` is empty where there are none."""

    path: Path
    label: str
    client: str = ""


@dataclass(frozen=True)
class _Found:
    """The pictures to train on and those to test on; where the latter come from, and what is left out."""

    train: list[_Picture]
    test: list[_Picture]
    about: dict[str, str]


def find_folder(folder: Path, image_size: int | None = None) -> DataFiles:
    """The user's own pictures, shuffled; all of one size, or each brought to a square of `image_size`.

    Resized, the shorter side becomes `image_size` and the middle is kept. If all are grey, there is one channel.

    >>> find_folder(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder, with a sub-folder of pictures per class
    """
    if image_size is not None:
        check_count("image_size", image_size, high=4096)
    found = _find(folder)
    paths = [picture.path for picture in (*found.train, *found.test)]
    return DataFiles(paths, partial(_read, folder, found, image_size))


def _read(folder: Path, found: _Found, image_size: int | None, progress: ReadProgress) -> Decoded:
    train, test = (
        [pictures[k] for k in generator(0, "folder order", number).permutation(len(pictures))]
        for number, pictures in enumerate((found.train, found.test))
    )
    pictures = train + test
    images = _decode([picture.path for picture in pictures], image_size, folder, progress)
    classes = sorted({picture.label for picture in train})
    owners = _owners(train, test)
    return Decoded(
        "image",
        _split(images[: len(train)], train, classes, owners),
        _split(images[len(train) :], test, classes, owners),
        tuple(classes),
        tuple(owners),
        about=found.about,
        raw_input=picture_input(images.shape[1:], upright=True, side=image_size),
    )


def _owners(train: list[_Picture], test: list[_Picture]) -> list[str]:
    """The clients: those with pictures to train on, then those that are only in the test."""
    training, testing = ({picture.client for picture in pictures if picture.client} for pictures in (train, test))
    return sorted(training) + sorted(testing - training)


def _split(images: Array, pictures: list[_Picture], classes: list[str], owners: list[str]) -> Split:
    number_of_class = {name: number for number, name in enumerate(classes)}
    number_of_owner = {name: number for number, name in enumerate(owners)}
    targets = np.array([number_of_class[picture.label] for picture in pictures], np.int64)
    if not pictures[0].client:
        return Split(images, targets)
    return Split(images, targets, np.array([number_of_owner[picture.client] for picture in pictures], np.int32))


# ------------------------------------------------------------------------------------------------------------- decoding


def _decode(paths: list[Path], image_size: int | None, folder: Path, progress: ReadProgress) -> Array:
    headers = map_with_progress(read_picture_header, paths, progress, total=2 * len(paths))
    if image_size is None:
        _check_one_size(paths, headers)
    height, width = (image_size, image_size) if image_size else (headers[0].height, headers[0].width)
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
    return images


def _check_one_size(paths: list[Path], headers: list[PictureHeader]) -> None:
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if (header.width, header.height) != (first.width, first.height):
            wrong(
                path,
                f"{first.width} x {first.height} pixels as in {paths[0]}, but it has {header.width} x {header.height}: "
                "set image_size to resize all pictures",
            )


# -------------------------------------------------------------------------------------------------------------- folders


def _find(folder: Path) -> _Found:
    """All that is in the folder; no folder is listed twice."""
    if not os.path.isdir(folder):
        wrong(folder, "a folder, with a sub-folder of pictures per class")
    listed = listing(folder)
    train_folder, test_folders = _train_and_tests(folder, listed[0])
    train, others = _pictures(train_folder, listed if train_folder == folder else listing(train_folder))
    classes = {picture.label for picture in train}
    if len(classes) < 2:
        inside = " in the folders of the clients" if train[0].client else ""
        wrong(train_folder, f"two classes or more, a sub-folder each{inside}, but there is only {min(classes)!r}")
    beside = listed[1] if train_folder != folder else []
    if not test_folders:
        kept, held_out = _hold_out(train, folder)
        return _Found(kept, held_out, _about("a fifth of the pictures, held out", others, beside, []))
    test, more = _pictures(test_folders[0], listing(test_folders[0]))
    if test[0].client and not train[0].client:
        wrong(
            test[0].path,
            f"a picture in a class folder, as in {train[0].path}; the test set may have clients only if the "
            "training set does",
        )
    for picture in test:
        if picture.label not in classes:
            wrong(picture.path, f"a class that is in {train_folder} too, but {picture.label!r} is not")
    where = f"folder {test_folders[0].name}/"
    return _Found(train, test, _about(where, others + more, beside, test_folders[1:]))


def _about(test: str, others: list[Path], beside: list[Path], folders: list[Path]) -> dict[str, str]:
    """Where the test comes from; and what is left out, if anything is: files among the pictures, or outside."""
    said = [f"folder {path.name}/" for path in folders]
    for paths, what in ((others, "that are not pictures"), (beside, "outside the folders")):
        some = [path for path in paths if path.name.lower() not in OTHER_PROGRAMS]
        if some:
            counts = Counter(printable(path.suffix.lower() or path.name)[:40] for path in some).most_common(5)
            listed = ", ".join(f"{ending} ({count:,})" for ending, count in counts)
            said.append(f"{len(some):,} file{'s' * (len(some) > 1)} {what}: {listed}")
    return {"test": test, **({"left_out": "; ".join(said)} if said else {})}


def _train_and_tests(folder: Path, inside: list[Path]) -> tuple[Path, list[Path]]:
    """Where the pictures to train on are, and those to test on; the first of several such folders counts."""
    names = {path.name.lower(): path for path in inside}
    trains = [names.pop(name) for name in TRAIN_FOLDERS if name in names]
    tests = [names.pop(name) for name in TEST_FOLDERS if name in names]
    others = [path.name for path in names.values()]
    if len(trains) == 1 and not others:
        return trains[0], tests
    if trains and tests:
        odd = [*others, *(path.name for path in trains[1:])][0]
        wrong(folder, f"nothing beside {trains[0].name} and {tests[0].name}, but there is {odd}")
    if tests and not others:
        wrong(folder, f"a folder train beside {tests[0].name}")
    return folder, []  # classes or clients, one of which may well be called train


def _pictures(root: Path, listed: Listing) -> tuple[list[_Picture], list[Path]]:
    """The pictures below a folder, equally deep, in class folders or in class folders of clients; and other files."""
    found, empty, ignored = _walk(root, listed)
    if not found:
        wrong(root, f"pictures ({', '.join(SUFFIXES)}) in a sub-folder per class, but it has {suffixes(ignored)}")
    above = len(root.parts)
    first = found[0].parts[above:]
    for path in found:
        if len(path.parts) != above + len(first):
            wrong(path, f"a picture as deep as {found[0]}: all in class folders, or all in class folders of clients")
    if not 2 <= len(first) <= 3:
        wrong(found[0], f"a picture in a sub-folder of {root} per class, or per client and in it per class")
    divided = len(first) == 3
    pictures = []
    for path in found:
        *client, label, _ = path.parts[above:]
        pictures.append(_Picture(path, label, client[0] if divided else ""))
    _check_none_empty(root, pictures, empty)
    return pictures, ignored


def _walk(root: Path, listed: Listing, deepest: int = 4) -> tuple[list[Path], list[Path], list[Path]]:
    """Pictures, folders without any, and other files."""
    folders, files = listed
    if folders and deepest == 1:
        wrong(folders[0], "no folder nested as deeply as this one")
    found = [path for path in files if is_picture(path)]
    ignored = [path for path in files if not is_picture(path)]
    empty: list[Path] = []
    for path in folders:
        for into, some in zip((found, empty, ignored), _walk(path, listing(path), deepest - 1), strict=True):
            into += some
    return found, empty if found or empty else [root], ignored


def _check_none_empty(root: Path, pictures: list[_Picture], empty: list[Path]) -> None:
    """Refuse a class or a client without pictures; that a client has none of some class is fine."""
    labels, clients = {picture.label for picture in pictures}, {picture.client for picture in pictures}
    for path in empty:
        *client, label = path.relative_to(root).parts
        if label not in labels or len(client) != 1 or client[0] not in clients:
            wrong(path, "pictures in this folder, but there are none")


def _hold_out(pictures: list[_Picture], folder: Path) -> tuple[list[_Picture], list[_Picture]]:
    """A fifth of every class for the test, at least one of two; every client keeps something to train on."""
    chosen: set[int] = set()
    left = Counter(picture.client for picture in pictures)
    draw = generator(0, "folder test")
    for label in sorted({picture.label for picture in pictures}):
        rows = [row for row, picture in enumerate(pictures) if picture.label == label]
        wanted = max(1, round(len(rows) / 5)) if len(rows) > 1 else 0
        for row in draw.permutation(rows):
            client = pictures[row].client
            if wanted and left[client] > 1:
                chosen.add(int(row))
                left[client] -= 1
                wanted -= 1
    if not chosen:
        wrong(folder, "at least two pictures of some class, or a folder test beside train")
    train = [picture for row, picture in enumerate(pictures) if row not in chosen]
    return train, [pictures[row] for row in sorted(chosen)]
