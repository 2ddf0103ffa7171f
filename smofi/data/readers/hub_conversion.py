"""The hub's columns, converted to what the official files would give: pictures, spoken words, excerpts of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smofi.data.decoded import Array, Decoded, ReadProgress, Split, silent
from smofi.data.formats.columns import class_names, class_numbers, column, contents, words
from smofi.data.formats.files import check_room, wrong
from smofi.data.formats.letters import text_input
from smofi.data.formats.logmel import BANDS, FRAMES, RATE, SOUND_INPUT, as_bytes, log_mel, one_second
from smofi.data.formats.names import printable
from smofi.data.formats.pictures import decode_picture, map_with_progress, picture_input
from smofi.data.formats.wav import decode_wav
from smofi.data.readers.leaf import LENGTH, Excerpts
from smofi.seeds import generator

SPLITS = ("train", "test")
SILENCE = "_silence_"
CLIPS_AT_ONCE = 32


class SplitsProgress:
    """Progress over several splits."""

    def __init__(self, progress: ReadProgress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def add(self, some: int) -> None:
        self.done += some
        self.progress(self.done, self.total)


def with_raw_input(decoded: Decoded, by: Callable[..., Decoded]) -> Decoded:
    """What one of the functions below made, with what it is: said here, for caches from before it was said, too."""
    if by is pictures:
        return replace(decoded, raw_input=picture_input(decoded.train.inputs.shape[1:]))
    return replace(decoded, raw_input=SOUND_INPUT if by is spoken else text_input(LENGTH))


def pictures(
    splits: Mapping[str, Any],
    places: Mapping[str, Path],
    columns: Sequence[str],
    progress: ReadProgress,
    *,
    grey: bool = False,
    order: str | None = None,
    classes: Sequence[str] | None = None,
) -> Decoded:
    """Pictures of one size with a class each; shuffled by a generator named `order`, where they lie class by class."""
    picture, target = columns
    names = class_names(splits["train"], target, places["train"])
    if classes is not None and len(classes) != len(names):
        wrong(places["train"], f"{len(classes)} classes, but it has {len(names)}")
    count = SplitsProgress(progress, sum(len(splits[split]) for split in SPLITS))
    read: list[Split] = []
    for number, split in enumerate(SPLITS):
        dataset, place = splits[split], places[split]
        if class_names(dataset, target, place) != names:
            wrong(place, "the classes of the training split, but it has others")
        labels = class_numbers(dataset, target, len(names), place)
        images = _images(dataset, picture, place, read[0].inputs.shape[1:] if read else None, grey, count)
        read.append(Split(images, labels))
        if order is not None:
            rows = generator(0, order, number).permutation(len(labels))
            read[number] = Split(images[rows], labels[rows])
    return with_raw_input(Decoded("image", read[0], read[1], tuple(classes or map(printable, names))), pictures)


def _images(
    dataset: Any, name: str, place: Path, size: tuple[int, ...] | None, grey: bool, count: SplitsProgress
) -> Array:
    """All pictures, each of the size given or, if there is none, of the first one's."""
    images = np.empty((0, 0, 0, 0), np.uint8)

    def decode(numbered: tuple[int, bytes]) -> None:
        row, content = numbered
        image = decode_picture(content, place / str(row), grey=grey)
        if image.shape != images.shape[1:]:
            expected = f"a picture of {images.shape[1:]}, height, width and channels"
            wrong(place / str(row), f"{expected}, but it has {image.shape}")
        images[row] = image

    for begin, files in contents(dataset, name, place):
        if not begin:
            size = size or decode_picture(files[0], place / "0", grey=grey).shape
            shape = (len(dataset), *size)
            sizes = " x ".join(f"{side:,}" for side in shape)
            check_room(place, 2 * math.prod(shape), f"its pictures, read and shuffled, take 2 x {sizes} bytes")
            images = np.empty(shape, np.uint8)
        map_with_progress(decode, list(enumerate(files, begin)), silent)
        count.add(len(files))
    return images


def spoken(
    splits: Mapping[str, Any], places: Mapping[str, Path], columns: Sequence[str], progress: ReadProgress
) -> Decoded:
    """Spoken words as log-mel images, shuffled; owners are the speakers. What is filed as silence is left out."""
    sound, target, speaker = columns
    names = class_names(splits["train"], target, places["train"])
    kept = sorted(name for name in names if name != SILENCE)
    number = np.array([kept.index(name) if name in kept else -1 for name in names])
    count = SplitsProgress(progress, sum(len(splits[split]) for split in SPLITS))
    read: list[tuple[Array, Array, list[str]]] = []
    for split in SPLITS:
        dataset, place = splits[split], places[split]
        if class_names(dataset, target, place) != names:
            wrong(place, "the words of the training split, but it has others")
        labels = number[class_numbers(dataset, target, len(names), place)]
        if not (labels >= 0).any():
            wrong(place, "at least one word, but all clips are silence")
        codes, speakers = words(dataset, speaker, place)
        if (nameless := (codes < 0) & (labels >= 0)).any():
            wrong(place / str(nameless.argmax()), f"a name in column {speaker!r}, but there is none")
        images = _sounds(dataset, sound, place, labels >= 0, count)
        read.append((images, labels[labels >= 0], [speakers[code] for code in codes[labels >= 0]]))
    owners = sorted({name for _, _, names in read for name in names})
    place_of = {name: place for place, name in enumerate(owners)}
    order = generator(0, "speech-commands order")
    result = []
    for images, labels, by in read:
        rows = order.permutation(len(labels))
        owner = np.array([place_of[name] for name in by], np.int32)
        result.append(Split(images[rows], labels[rows].astype(np.int64), owner[rows]))
    decoded = Decoded("image", result[0], result[1], tuple(map(printable, kept)), tuple(map(printable, owners)))
    return with_raw_input(decoded, spoken)


def _sounds(dataset: Any, name: str, place: Path, wanted: Array, count: SplitsProgress) -> Array:
    """The log-mel images of the wanted rows, `[clips, 49, 40, 1]`."""
    images = np.empty((int(wanted.sum()), FRAMES, BANDS, 1), np.uint8)
    done = 0
    for begin, files in contents(dataset, name, place):
        clips = [(row, file) for row, file in enumerate(files, begin) if wanted[row]]
        for first in range(0, len(clips), CLIPS_AT_ONCE):
            some = clips[first : first + CLIPS_AT_ONCE]
            seconds = np.stack([one_second(decode_wav(file, place / str(row), RATE)) for row, file in some])
            # in double precision, as for the official files
            images[done : done + len(some), :, :, 0] = as_bytes(log_mel(torch.from_numpy(seconds).double())).numpy()
            done += len(some)
        count.add(len(files))
    return images


def excerpts(
    splits: Mapping[str, Any], places: Mapping[str, Path], columns: Sequence[str], progress: ReadProgress
) -> Decoded:
    """Excerpts of 80 characters and the one after each, by role: of every role, the last fifth is to test on."""
    dataset, place = splits["train"], places["train"]
    codes, roles = words(dataset, columns[0], place)
    if (codes < 0).any():
        wrong(place / str((codes < 0).argmax()), f"a name in column {columns[0]!r}, but there is none")
    found, count = Excerpts(), SplitsProgress(progress, len(dataset))
    ends = np.cumsum(np.bincount(codes, minlength=len(roles)))
    for role, rows in zip(roles, np.split(np.argsort(codes, kind="stable"), ends[:-1]), strict=True):
        x, y = (column(dataset.select(rows), name).to_pylist() for name in columns[1:])
        document = {"users": [role], "num_samples": [len(rows)], "user_data": {role: {"x": x, "y": y}}}
        found.add(document, place, None, silent)
        count.add(len(rows))
    return found.decoded(place)
