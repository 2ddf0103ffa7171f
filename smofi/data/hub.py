"""Get data sets from the Hugging Face hub by its `datasets` package, converted to what official files would give."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from smofi.data.decoded import Array, Decoded, ReadProgress, Split, named_split, silent
from smofi.data.idx_files import CLASSES
from smofi.data.outside import check_room, printable, wrong
from smofi.data.pictures import decode_picture, map_with_progress, picture_input
from smofi.data.shakespeare import Excerpts
from smofi.data.sound import BANDS, FRAMES, RATE, SOUND_INPUT, decode_clip, images_of
from smofi.errors import InputError, check_choice
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# The columns of a Hugging Face `datasets.Dataset` as they are stored: pictures and sound as bytes of their files.


AT_ONCE = 1000


def column(dataset: Any, name: str, begin: int = 0, end: int | None = None) -> Any:
    """Return some rows of a column as an arrow array: nothing is decoded."""
    return dataset.select_columns([name]).with_format("arrow")[begin:end].column(name)


def contents(dataset: Any, name: str, place: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the files of a column, a thousand at a time, with the number of the first; follow no paths in it."""
    for begin in range(0, len(dataset), AT_ONCE):
        some = column(dataset, name, begin, begin + AT_ONCE).to_pylist()
        found = [file["bytes"] for file in some if isinstance(file, dict) and isinstance(file.get("bytes"), bytes)]
        if len(found) < len(some):
            wrong(place, f"the bytes of a file in every row of column {name!r}, but some rows have none")
        yield begin, found


def class_names(dataset: Any, name: str, place: Path) -> list[str]:
    """Return the names of the classes in a column of labels."""
    names = getattr(dataset.features[name], "names", None)
    if not isinstance(names, list) or len(names) < 2:
        wrong(place, f"column {name!r} to be of type ClassLabel with two names or more")
    return [str(word) for word in names]


def class_numbers(dataset: Any, name: str, classes: int, place: Path) -> Array:
    """Return the labels in a column, int64."""
    given = column(dataset, name)
    labels: Array = given.fill_null(-1).to_numpy().astype(np.int64)
    if (strange := (labels < 0) | (labels >= classes)).any():
        row = int(strange.argmax())
        wrong(place / str(row), f"a label from 0 to {classes - 1}, but it is {given[row]}")
    return labels


def words(dataset: Any, name: str, place: Path) -> tuple[Array, list[str]]:
    """Return a column of words as numbers, and what they stand for; a word that is missing is -1."""
    coded = column(dataset, name).combine_chunks().dictionary_encode()
    found = coded.dictionary.to_pylist()
    if not all(isinstance(word, str) for word in found):
        wrong(place, f"words in column {name!r}")
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), found


# --------------------------------------------------------------------------------------------------------------------
# The hub's columns, converted to what the official files would give: pictures, spoken words, excerpts of text.

SPLITS = ("train", "test")
SILENCE = "_silence_"


class _SplitsProgress:
    """Progress over several splits."""

    def __init__(self, progress: ReadProgress, splits: Mapping[str, Any]) -> None:
        self.progress, self.total, self.done = progress, sum(map(len, splits.values())), 0

    def add(self, some: int) -> None:
        self.done += some
        self.progress(self.done, self.total)


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
    """Convert pictures of one size; a generator named `order` shuffles them where they lie class by class."""
    picture, target = columns
    names = class_names(splits["train"], target, places["train"])
    if classes is not None and len(classes) != len(names):
        wrong(places["train"], f"{len(classes)} classes, but it has {len(names)}")
    count = _SplitsProgress(progress, splits)
    read: list[Split] = []
    for number, split in enumerate(SPLITS):
        dataset, place = splits[split], places[split]
        if class_names(dataset, target, place) != names:
            wrong(place, "the classes of the training split, but it has others")
        labels = class_numbers(dataset, target, len(names), place)
        images = _images(dataset, picture, place, read[0].inputs.shape[1:] if read else None, grey, count)
        read.append(Split(images, labels))
        if order is not None:
            read[number] = read[number][generator(0, order, number).permutation(len(labels))]
    raw_input = picture_input(read[0].inputs.shape[1:])
    return Decoded("image", read[0], read[1], tuple(classes or map(printable, names)), raw_input=raw_input)


def _images(
    dataset: Any, name: str, place: Path, size: tuple[int, ...] | None, grey: bool, count: _SplitsProgress
) -> Array:
    """Decode all pictures, each of the size given or, if there is none, of the first one's."""
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
    """Convert spoken words to log-mel images, shuffled, without silence; owners are the speakers."""
    sound, target, speaker = columns
    names = class_names(splits["train"], target, places["train"])
    kept = sorted(name for name in names if name != SILENCE)
    count = _SplitsProgress(progress, splits)
    read: list[tuple[Array, list[str], list[str]]] = []
    for split in SPLITS:
        dataset, place = splits[split], places[split]
        if class_names(dataset, target, place) != names:
            wrong(place, "the words of the training split, but it has others")
        labels = class_numbers(dataset, target, len(names), place)
        wanted = np.array([name in kept for name in names])[labels]
        if not wanted.any():
            wrong(place, "at least one word, but all clips are silence")
        codes, speakers = words(dataset, speaker, place)
        if (nameless := (codes < 0) & wanted).any():
            wrong(place / str(nameless.argmax()), f"a name in column {speaker!r}, but there is none")
        images = _sounds(dataset, sound, place, wanted, count)
        read.append((images, [names[label] for label in labels[wanted]], [speakers[code] for code in codes[wanted]]))
    owners = sorted({name for _, _, by in read for name in by})
    order = generator(0, "speech-commands order")
    train, test = (
        named_split(images, said, kept, by, owners)[order.permutation(len(said))] for images, said, by in read
    )
    called, owned = tuple(map(printable, kept)), tuple(map(printable, owners))
    return Decoded("image", train, test, called, owned, raw_input=SOUND_INPUT)


def _sounds(dataset: Any, name: str, place: Path, wanted: Array, count: _SplitsProgress) -> Array:
    """Return the log-mel images of the wanted rows, `[clips, 49, 40, 1]`."""
    images = np.empty((int(wanted.sum()), FRAMES, BANDS, 1), np.uint8)
    done = 0
    for begin, files in contents(dataset, name, place):
        clips = [(place / str(row), file) for row, file in enumerate(files, begin) if wanted[row]]
        images[done : done + len(clips)] = images_of(clips, lambda clip: decode_clip(clip[1], clip[0]), RATE)
        done += len(clips)
        count.add(len(files))
    return images


def excerpts(
    splits: Mapping[str, Any], places: Mapping[str, Path], columns: Sequence[str], progress: ReadProgress
) -> Decoded:
    """Convert excerpts of 80 characters and the one after each; the last fifth of every role is to test on."""
    dataset, place = splits["train"], places["train"]
    codes, roles = words(dataset, columns[0], place)
    if (codes < 0).any():
        wrong(place / str((codes < 0).argmax()), f"a name in column {columns[0]!r}, but there is none")
    found, count = Excerpts(), _SplitsProgress(progress, splits)
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
    """A data set on the hub: the arguments of `load_dataset` by split, and how to convert what it returns.

    `remark` says how it differs from the official one.
    """

    repository: str
    configuration: str | None
    arguments: Mapping[str, Mapping[str, Any]]
    columns: tuple[str, ...]
    convert: Callable[..., Decoded]
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
    "cifar10": Hub("uoft-cs/cifar10", "plain_text", BOTH, ("img", "label"), pictures),
    "cifar100": Hub("uoft-cs/cifar100", "cifar100", BOTH, ("img", "fine_label"), pictures),
    "tiny-imagenet": Hub(
        "zh-plus/tiny-imagenet",
        None,
        _splits(train="train", test="valid"),
        ("image", "label"),
        partial(pictures, order="tiny-imagenet order"),
    ),
    "shakespeare": Hub("flwrlabs/shakespeare", None, _splits(train="train"), ("character_id", "x", "y"), excerpts),
    # Its own files would take a program to read; at this revision the hub keeps a copy that does not.
    "speech-commands": Hub(
        "google/speech_commands",
        None,
        _files(train=["v0.02/train/*.parquet", "v0.02/validation/*.parquet"], test=["v0.02/test/*.parquet"]),
        ("audio", "label", "speaker_id"),
        spoken,
        revision="refs/convert/parquet",
        remark="the hub has a test set of its own, 4,890 clips with silence among them, not the official 11,005: "
        "do not compare accuracies with published ones",
    ),
    "fashion-mnist": Hub(
        "zalando-datasets/fashion_mnist",
        "fashion_mnist",
        BOTH,
        ("image", "label"),
        partial(pictures, grey=True, classes=CLASSES),
    ),
}


def fetch(name: str, progress: ReadProgress) -> Decoded:
    """Fetch a data set. What is downloaded stays in the package's own cache; HF_HUB_OFFLINE uses only that."""
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
    """Convert the `datasets.Dataset` of each split, with the columns that they have on the hub, to arrays."""
    entry = HUB[check_choice("data", name, HUB)]
    places = {split: Path(entry.repository) / str(arguments["split"]) for split, arguments in entry.arguments.items()}
    for split, place in places.items():
        if missing := [name for name in entry.columns if name not in splits[split].column_names]:
            wrong(place, f"the columns {', '.join(entry.columns)}, but it lacks {', '.join(missing)}")
        if not len(splits[split]):
            wrong(place, "at least one sample, but it has none")
    decoded = entry.convert(splits, places, entry.columns, progress)
    return replace(decoded, about={**decoded.about, "remark": entry.remark}) if entry.remark else decoded


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the packages' own messages: a failure is reported once, in our error."""
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
