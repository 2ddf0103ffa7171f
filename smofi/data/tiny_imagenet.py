"""Tiny-ImageNet, or some classes of it, in the official folders; its validation set is the one to test on.

Le and Yang, "Tiny ImageNet visual recognition challenge", Stanford CS231N, 2015.

    wnids.txt                            the classes, n01443537 and so on
    words.txt                            what they are called (may be absent)
    train/<class>/images/*.JPEG          64x64, some of them grey
    val/images/*.JPEG                    val/val_annotations.txt says of which class each is
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import numpy as np

from smofi.data.decoded import DataFiles, Decoded, ReadProgress, Split
from smofi.data.outside import check_room, listing, read_lines, wrong
from smofi.data.pictures import SUFFIXES, map_with_progress, picture_input, read_picture
from smofi.seeds import generator

SIDE = 64
OFFICIAL = "tiny-imagenet-200"
ANNOTATIONS = "val_annotations.txt"
MOST_LIST = 20_000_000


def find_tiny_imagenet(folder: Path) -> DataFiles:
    """Find Tiny-ImageNet: `[samples, 64, 64, 3]`, shuffled, for its files lie class by class."""
    root = _root(folder)
    classes = _classes(root)
    train, test = _train(root, classes), _test(root, classes)
    texts = [root / "wnids.txt", root / "words.txt", root / "val" / ANNOTATIONS]
    paths = [path for path in texts if path.is_file()] + [path for path, _ in (*train, *test)]
    return DataFiles(paths, partial(_read, root, classes, train, test))


def _read(
    root: Path,
    classes: dict[str, int],
    train: list[tuple[Path, int]],
    test: list[tuple[Path, int]],
    progress: ReadProgress,
) -> Decoded:
    labelled = []
    for number, pictures in enumerate((train, test)):
        order = generator(0, "tiny-imagenet order", number).permutation(len(pictures))
        labelled += [pictures[k] for k in order]
    needed = len(labelled) * SIDE * SIDE * 3
    check_room(root, needed, f"its pictures take {len(labelled):,} x {SIDE} x {SIDE} x 3 bytes")
    images = np.empty((len(labelled), SIDE, SIDE, 3), np.uint8)
    targets = np.array([target for _, target in labelled], np.int64)

    def decode(row: int) -> None:
        path, _ = labelled[row]
        image = read_picture(path)
        if image.shape != (SIDE, SIDE, 3):
            wrong(path, f"a picture of {SIDE} x {SIDE}, but it has {image.shape[1]} x {image.shape[0]}")
        images[row] = image

    map_with_progress(decode, range(len(labelled)), progress)
    both = Split(images, targets)
    names = _names(root, classes)
    return Decoded("image", both[: len(train)], both[len(train) :], names, raw_input=picture_input((SIDE, SIDE, 3)))


def _root(folder: Path) -> Path:
    for root in (folder, folder / OFFICIAL):
        if os.path.isfile(root / "wnids.txt"):
            if not os.path.isfile(root / "val" / ANNOTATIONS):
                wrong(root, f"val/{ANNOTATIONS} as well")
            if not os.path.isdir(root / "train"):
                wrong(root, "a folder train as well")
            return root
    wrong(folder, f"a folder with wnids.txt, train and val, or these in {OFFICIAL}, but there is no wnids.txt")


def _classes(root: Path) -> dict[str, int]:
    """Number the classes in the order of their names."""
    path = root / "wnids.txt"
    found = read_lines(path, MOST_LIST, "a class per line")
    for name in found:
        if not re.fullmatch(r"n[0-9]{8}", name):
            wrong(path, f"a class per line, n and eight digits, but there is {name[:100]!r}")
    if len(found) < 2 or len(set(found)) != len(found):
        wrong(
            path, f"two classes or more, each once, but it has {len(found)}, of which {len(set(found))} are different"
        )
    return {name: number for number, name in enumerate(sorted(found))}


def _train(root: Path, classes: dict[str, int]) -> list[tuple[Path, int]]:
    """List the pictures to train on, each with the number of its class."""
    for folder in listing(root / "train")[0]:
        if folder.name not in classes:
            wrong(folder, "a class that wnids.txt names")
    labelled = []
    for name, target in classes.items():
        folder = root / "train" / name
        inner = folder / "images"
        files = listing(inner if inner.is_dir() else folder)[1]
        pictures = [(path, target) for path in files if path.name.lower().endswith(SUFFIXES)]
        if not pictures:
            wrong(folder, "pictures in it or in its folder images, but there are none")
        labelled += pictures
    return labelled


def _test(root: Path, classes: dict[str, int]) -> list[tuple[Path, int]]:
    """List the pictures to test on, each with the number of its class."""
    path, folder = root / "val" / ANNOTATIONS, root / "val" / "images"
    present = {picture.name: picture for picture in listing(folder)[1] if picture.name.lower().endswith(SUFFIXES)}
    labelled = []
    for number, line in enumerate(read_lines(path, MOST_LIST, "a picture and its class per line"), start=1):
        name, _, rest = line.partition("\t")
        label = rest.partition("\t")[0]
        if label not in classes:
            wrong(path, f"in line {number} a class that wnids.txt names, but there is {label[:100]!r}")
        # Only names that the folder lists, each once: none can lead out of it.
        if (picture := present.pop(name, None)) is None:
            wrong(path, f"in line {number} a picture of {folder}, named once, but there is {name[:100]!r}")
        labelled.append((picture, classes[label]))
    if present:
        wrong(path, f"the class of every picture in {folder}, but {min(present)!r} has none")
    if not labelled:
        wrong(path, "a picture and its class per line, but it has none")
    return labelled


def _names(root: Path, classes: dict[str, int]) -> tuple[str, ...]:
    """Name each class by the first of its synonyms and, if two are called alike, by its number as well."""
    words = {}
    if os.path.isfile(path := root / "words.txt"):
        for line in read_lines(path, MOST_LIST, "a class and its names per line"):
            name, _, synonyms = line.partition("\t")
            words[name] = synonyms.partition(",")[0].strip()
    called = [words.get(name) or name for name in classes]
    return tuple(
        word if called.count(word) == 1 else f"{word} ({name})" for word, name in zip(called, classes, strict=True)
    )
