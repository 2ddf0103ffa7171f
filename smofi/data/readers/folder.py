"""The user's own folder: pictures, recordings, texts or idx files, whichever lie in it.

items, layout, client_list   which files there are, of which class and whose
pictures, recordings         what they become
texts, idx_files             folders of other kinds
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import listing, wrong
from smofi.data.formats.names import printable
from smofi.data.readers.client_list import LIST, by_list
from smofi.data.readers.idx_files import find_idx, idx_prefix
from smofi.data.readers.items import RECORDINGS, TEXTS, Found, Item
from smofi.data.readers.layout import by_folders
from smofi.data.readers.own_texts import read_texts
from smofi.data.readers.pictures import decode_pictures
from smofi.data.readers.recordings import decode_recordings
from smofi.errors import check_count
from smofi.seeds import generator


def find_folder(folder: Path, image_size: int | None = None) -> DataFiles:
    """The user's own files, shuffled. Pictures are all of one size, or each is brought to a square of `image_size`.

    A single text, or one file of several idx data sets in a folder, may be named instead of a folder.

    >>> find_folder(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder of pictures, recordings, texts or idx files
    """
    if image_size is not None:
        check_count("image_size", image_size, high=4096)
    if not os.path.isdir(folder):
        return _find_file(folder)
    inside = listing(folder)
    if any(idx_prefix(path) is not None for path in inside[1]):
        return find_idx(folder, inside[1])
    found = by_list(folder, inside) if folder / LIST in inside[1] else by_folders(folder, inside)
    return DataFiles(found.paths, partial(_read, folder, found, image_size))


def _find_file(path: Path) -> DataFiles:
    if os.path.exists(path) and TEXTS.has(path):
        about = {
            "test": "the last fifth of the text; to choose the test set yourself, name a folder with train and test"
        }
        found = Found(TEXTS, [Item(path, "", path.stem)], [], about)
        return DataFiles([path], partial(read_texts, path, found))
    if os.path.exists(path) and (prefix := idx_prefix(path)) is not None:
        return find_idx(path.parent, listing(path.parent)[1], prefix)
    wrong(path, "a folder of pictures, recordings, texts or idx files")


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
    owners = _owners(train, test)
    return Decoded(
        "image",
        _split(images[: len(train)], train, classes, owners),
        _split(images[len(train) :], test, classes, owners),
        tuple(map(printable, classes)),
        tuple(map(printable, owners)),
        about={**found.about, **({"remark": remark} if remark else {})},
        raw_input=raw_input,
    )


def _owners(train: list[Item], test: list[Item]) -> list[str]:
    """The clients: those with files to train on, then those that are only in the test."""
    training, testing = ({item.client for item in items if item.client} for items in (train, test))
    return sorted(training) + sorted(testing - training)


def _split(images: Array, items: list[Item], classes: list[str], owners: list[str]) -> Split:
    number_of_class = {name: number for number, name in enumerate(classes)}
    number_of_owner = {name: number for number, name in enumerate(owners)}
    targets = np.array([number_of_class[item.label] for item in items], np.int64)
    if not items[0].client:
        return Split(images, targets)
    return Split(images, targets, np.array([number_of_owner[item.client] for item in items], np.int32))
