"""Data sets from the Hugging Face hub, by its `datasets` package, converted to what their official files would give."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from smofi.data.decoded import Array, Decoded, ReadProgress, Split, silent
from smofi.data.formats.arrays import printable
from smofi.data.formats.files import check_room, wrong
from smofi.data.formats.letters import text_input
from smofi.data.formats.pictures import decode_picture, map_with_progress, picture_input
from smofi.data.formats.sound import BANDS, FRAMES, RATE, SOUND_INPUT, as_bytes, decode_wav, log_mel, one_second
from smofi.data.readers.idx_files import CLASSES
from smofi.data.readers.shakespeare import LENGTH, Excerpts
from smofi.errors import InputError, check_choice
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# The columns of a Hugging Face `datasets.Dataset` as they are stored: pictures and sound as bytes of their files.


AT_ONCE = 1000


def check_columns(dataset: Any, names: Sequence[str], place: Path) -> None:
    """Refuse a data set without these columns, or without a row."""
    if missing := [name for name in names if name not in dataset.column_names]:
        wrong(place, f"the columns {', '.join(names)}, but it lacks {', '.join(missing)}")
    if not len(dataset):
        wrong(place, "at least one sample, but it has none")


def column(dataset: Any, name: str, begin: int = 0, end: int | None = None) -> Any:
    """Some rows of a column as an arrow array: nothing is decoded."""
    return dataset.select_columns([name]).with_format("arrow")[begin:end].column(name)


def contents(dataset: Any, name: str, place: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The files of a column, a thousand at a time, with the number of the first; paths in it are never followed."""
    for begin in range(0, len(dataset), AT_ONCE):
        some = column(dataset, name, begin, begin + AT_ONCE).to_pylist()
        found = [file["bytes"] for file in some if isinstance(file, dict) and isinstance(file.get("bytes"), bytes)]
        if len(found) < len(some):
            wrong(place, f"the bytes of a file in every row of column {name!r}, but some rows have none")
        yield begin, found


def class_names(dataset: Any, name: str, place: Path) -> list[str]:
    """The names of the classes in a column of labels."""
    names = getattr(dataset.features[name], "names", None)
    if not isinstance(names, list) or len(names) < 2:
        wrong(place, f"column {name!r} to be of type ClassLabel with two names or more")
    return [str(word) for word in names]


def class_numbers(dataset: Any, name: str, classes: int, place: Path) -> Array:
    """The labels in a column, int64."""
    given = column(dataset, name)
    labels: Array = given.fill_null(-1).to_numpy().astype(np.int64)
    if (strange := (labels < 0) | (labels >= classes)).any():
        row = int(strange.argmax())
        wrong(place / str(row), f"a label from 0 to {classes - 1}, but it is {given[row]}")
    return labels


def words(dataset: Any, name: str, place: Path) -> tuple[Array, list[str]]:
    """A column of words as numbers, and what they stand for; a word that is missing is -1."""
    coded = column(dataset, name).combine_chunks().dictionary_encode()
    found = coded.dictionary.to_pylist()
    if not all(isinstance(word, str) for word in found):
        wrong(place, f"words in column {name!r}")
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), found


# --------------------------------------------------------------------------------------------------------------------
# The hub's columns, converted to what the official files would give: pictures, spoken words, excerpts of text.

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


# --------------------------------------------------------------------------------------------------------------------
# Data sets from the Hugging Face hub, by its `datasets` package, converted to what their official files would give.


@dataclass(frozen=True)
class Hub:
    """Where a data set is on the hub: the arguments of `load_dataset` by split, and how to convert what it returns.

    `remark` says how it differs from the official one.
    """

    repository: str
    configuration: str | None
    arguments: Mapping[str, Mapping[str, Any]]
    columns: tuple[str, ...]
    convert: Callable[..., Decoded]
    options: Mapping[str, Any]
    revision: str = "main"
    remark: str = ""


def _splits(**splits: str) -> dict[str, dict[str, Any]]:
    return {name: {"split": split} for name, split in splits.items()}


def _files(**files: list[str]) -> dict[str, dict[str, Any]]:
    return {name: {"split": name, "data_files": {name: paths}} for name, paths in files.items()}


PACKAGES = ("datasets", "huggingface_hub")
SECONDS = 10
"""How long the hub may take to answer at all."""

BOTH = _splits(train="train", test="test")

HUB: dict[str, Hub] = {
    "cifar10": Hub("uoft-cs/cifar10", "plain_text", BOTH, ("img", "label"), pictures, {}),
    "cifar100": Hub("uoft-cs/cifar100", "cifar100", BOTH, ("img", "fine_label"), pictures, {}),
    "tiny-imagenet": Hub(
        "zh-plus/tiny-imagenet",
        None,
        _splits(train="train", test="valid"),
        ("image", "label"),
        pictures,
        {"order": "tiny-imagenet order"},
    ),
    "shakespeare": Hub("flwrlabs/shakespeare", None, _splits(train="train"), ("character_id", "x", "y"), excerpts, {}),
    # Its own files would take a program to read; at this revision the hub keeps a copy that does not.
    "speech-commands": Hub(
        "google/speech_commands",
        None,
        _files(train=["v0.02/train/*.parquet", "v0.02/validation/*.parquet"], test=["v0.02/test/*.parquet"]),
        ("audio", "label", "speaker_id"),
        spoken,
        {},
        revision="refs/convert/parquet",
        remark="the hub has a test set of its own, 4,890 clips with silence among them, not the official 11,005: "
        "do not compare accuracies with published ones",
    ),
    "fashion-mnist": Hub(
        "zalando-datasets/fashion_mnist",
        "fashion_mnist",
        BOTH,
        ("image", "label"),
        pictures,
        {"grey": True, "classes": CLASSES},
    ),
}


def fetch(name: str, progress: ReadProgress) -> Decoded:
    """A data set from the hub. What is downloaded stays in the package's own cache; HF_HUB_OFFLINE uses only that."""
    entry = HUB[check_choice("data", name, HUB)]
    datasets, huggingface_hub = (_package(package, name) for package in PACKAGES)
    try:
        with _quiet():
            if not huggingface_hub.constants.HF_HUB_OFFLINE:
                # tried once, because the package would try six times, with pauses, before it gives up
                huggingface_hub.HfApi().dataset_info(entry.repository, timeout=SECONDS)
            splits = {
                split: datasets.load_dataset(
                    entry.repository, entry.configuration, revision=entry.revision, **arguments
                )
                for split, arguments in entry.arguments.items()
            }
    except Exception as error:  # the network, the hub and the package fail in every way there is
        raise InputError(
            f"data={name!r} could not be fetched: {entry.repository} of the Hugging Face hub gave "
            f"{type(error).__name__}: {str(error)[:300]}. Alternatively, put its official files into a folder, "
            "and pass it by --data-folder"
        ) from error
    return convert(name, splits, progress)


def convert(name: str, splits: Mapping[str, Any], progress: ReadProgress) -> Decoded:
    """The `datasets.Dataset` of each split, with the columns that they have on the hub, as arrays."""
    entry = HUB[check_choice("data", name, HUB)]
    places = {split: Path(entry.repository) / str(arguments["split"]) for split, arguments in entry.arguments.items()}
    for split, place in places.items():
        check_columns(splits[split], entry.columns, place)
    decoded = entry.convert(splits, places, entry.columns, progress, **entry.options)
    return replace(decoded, about={**decoded.about, "remark": entry.remark}) if entry.remark else decoded


def completed(name: str, decoded: Decoded) -> Decoded:
    """What was fetched, perhaps before readers said what raw input is: then it is said now."""
    return decoded if decoded.raw_input is not None else with_raw_input(decoded, HUB[name].convert)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the packages' own messages: a failure is reported once, in our error."""
    loggers = [logging.getLogger(package) for package in PACKAGES]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _package(package: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise InputError(
            f'data={name!r} could not be fetched: it needs another package ({error}): pip install "smofi[datasets]"'
        ) from error
