"""Get data sets from the Hugging Face hub by its `datasets` package, converted to what official files would give."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
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

AT_ONCE = 1000
SILENCE = "_silence_"


@dataclass(frozen=True)
class Rows:
    """A split as it is stored: pictures and sound as bytes of their files, of which nothing is decoded.

    `dataset` is a `datasets.Dataset`, `place` what an error calls it; `report` is told how many more rows are read.
    """

    dataset: Any
    place: Path
    report: Callable[[int], None]

    def __len__(self) -> int:
        return len(self.dataset)

    def column(self, name: str, begin: int = 0, end: int | None = None) -> Any:
        """Return some rows of a column as an arrow array."""
        return self.dataset.select_columns([name]).with_format("arrow")[begin:end].column(name)

    def files(self, name: str) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the files of a column, a thousand at a time, with the number of the first; follow no paths in it."""
        for begin in range(0, len(self), AT_ONCE):
            some = self.column(name, begin, begin + AT_ONCE).to_pylist()
            found = [file["bytes"] for file in some if isinstance(file, dict) and isinstance(file.get("bytes"), bytes)]
            if len(found) < len(some):
                wrong(self.place, f"the bytes of a file in every row of column {name!r}, but some rows have none")
            yield begin, found
            self.report(len(found))

    def class_names(self, name: str) -> list[str]:
        names = getattr(self.dataset.features[name], "names", None)
        if not isinstance(names, list) or len(names) < 2:
            wrong(self.place, f"column {name!r} to be of type ClassLabel with two names or more")
        return [str(word) for word in names]

    def class_numbers(self, name: str, names: list[str]) -> Array:
        """Return the labels in a column, int64; `names` are the classes of the training split."""
        if self.class_names(name) != names:
            wrong(self.place, "the classes of the training split, but it has others")
        given = self.column(name)
        labels: Array = given.fill_null(-1).to_numpy().astype(np.int64)
        if (strange := (labels < 0) | (labels >= len(names))).any():
            row = int(strange.argmax())
            wrong(self.place / str(row), f"a label from 0 to {len(names) - 1}, but it is {given[row]}")
        return labels

    def words(self, name: str, wanted: Array | bool = True) -> tuple[Array, list[str]]:
        """Return a column of words as numbers, and what they stand for; rows that are not wanted may have none, -1."""
        coded = self.column(name).combine_chunks().dictionary_encode()
        found = coded.dictionary.to_pylist()
        if not all(isinstance(word, str) for word in found):
            wrong(self.place, f"words in column {name!r}")
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if (nameless := (codes < 0) & wanted).any():
            wrong(self.place / str(nameless.argmax()), f"a name in column {name!r}, but there is none")
        return codes, found


def pictures(
    splits: Mapping[str, Rows],
    columns: Sequence[str],
    *,
    grey: bool = False,
    order: str | None = None,
    classes: Sequence[str] | None = None,
) -> Decoded:
    """Convert pictures of one size; a generator named `order` shuffles them where they lie class by class."""
    picture, target = columns
    names = splits["train"].class_names(target)
    if classes is not None and len(classes) != len(names):
        wrong(splits["train"].place, f"{len(classes)} classes, but it has {len(names)}")
    read: list[Split] = []
    for number, rows in enumerate(splits.values()):
        labels = rows.class_numbers(target, names)
        read.append(Split(_images(rows, picture, read[0].inputs.shape[1:] if read else None, grey), labels))
        if order is not None:
            read[number] = read[number][generator(0, order, number).permutation(len(labels))]
    raw_input = picture_input(read[0].inputs.shape[1:])
    return Decoded("image", read[0], read[1], tuple(classes or map(printable, names)), raw_input=raw_input)


def _images(rows: Rows, name: str, size: tuple[int, ...] | None, grey: bool) -> Array:
    """Decode all pictures, each of the size given or, if there is none, of the first one's."""
    images = np.empty((0, 0, 0, 0), np.uint8)

    def decode(numbered: tuple[int, bytes]) -> None:
        row, content = numbered
        image = decode_picture(content, rows.place / str(row), grey=grey)
        if image.shape != images.shape[1:]:
            expected = f"a picture of {images.shape[1:]}, height, width and channels"
            wrong(rows.place / str(row), f"{expected}, but it has {image.shape}")
        images[row] = image

    for begin, files in rows.files(name):
        if not begin:
            shape = (len(rows), *(size or decode_picture(files[0], rows.place / "0", grey=grey).shape))
            sizes = " x ".join(f"{side:,}" for side in shape)
            check_room(rows.place, 2 * math.prod(shape), f"its pictures, read and shuffled, take 2 x {sizes} bytes")
            images = np.empty(shape, np.uint8)
        map_with_progress(decode, list(enumerate(files, begin)), silent)
    return images


def spoken(splits: Mapping[str, Rows], columns: Sequence[str]) -> Decoded:
    """Convert spoken words to log-mel images, shuffled, without silence; owners are the speakers."""
    sound, target, speaker = columns
    names = splits["train"].class_names(target)
    kept = sorted(name for name in names if name != SILENCE)
    read: list[tuple[Array, list[str], list[str]]] = []
    for rows in splits.values():
        labels = rows.class_numbers(target, names)
        wanted = np.array([name in kept for name in names])[labels]
        if not wanted.any():
            wrong(rows.place, "at least one word, but all clips are silence")
        codes, speakers = rows.words(speaker, wanted)
        images, done = np.empty((int(wanted.sum()), FRAMES, BANDS, 1), np.uint8), 0
        for begin, files in rows.files(sound):
            clips = [(rows.place / str(row), file) for row, file in enumerate(files, begin) if wanted[row]]
            images[done : done + len(clips)] = images_of(clips, lambda clip: decode_clip(clip[1], clip[0]), RATE)
            done += len(clips)
        read.append((images, [names[label] for label in labels[wanted]], [speakers[code] for code in codes[wanted]]))
    owners = sorted({name for _, _, by in read for name in by})
    order = generator(0, "speech-commands order")
    train, test = (
        named_split(images, said, kept, by, owners)[order.permutation(len(said))] for images, said, by in read
    )
    called, owned = tuple(map(printable, kept)), tuple(map(printable, owners))
    return Decoded("image", train, test, called, owned, raw_input=SOUND_INPUT)


def excerpts(splits: Mapping[str, Rows], columns: Sequence[str]) -> Decoded:
    """Convert excerpts of 80 characters and the one after each; the last fifth of every role is to test on."""
    data, found = splits["train"], Excerpts()
    codes, roles = data.words(columns[0])
    ends = np.cumsum(np.bincount(codes, minlength=len(roles)))
    for role, rows in zip(roles, np.split(np.argsort(codes, kind="stable"), ends[:-1]), strict=True):
        own = replace(data, dataset=data.dataset.select(rows))
        x, y = (own.column(name).to_pylist() for name in columns[1:])
        document = {"users": [role], "num_samples": [len(rows)], "user_data": {role: {"x": x, "y": y}}}
        found.add(document, data.place, None, silent)
        data.report(len(rows))
    return found.decoded(data.place)


# --------------------------------------------------------------------------------------------------------------------
# Which data sets there are, and how they are fetched.


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


SECONDS = 10
"""How long the hub may take to answer at all."""

BOTH = dict(train=dict(split="train"), test=dict(split="test"))

HUB: dict[str, Hub] = {
    "cifar10": Hub("uoft-cs/cifar10", "plain_text", BOTH, ("img", "label"), pictures),
    "cifar100": Hub("uoft-cs/cifar100", "cifar100", BOTH, ("img", "fine_label"), pictures),
    "tiny-imagenet": Hub(
        "zh-plus/tiny-imagenet",
        None,
        dict(train=dict(split="train"), test=dict(split="valid")),
        ("image", "label"),
        partial(pictures, order="tiny-imagenet order"),
    ),
    "shakespeare": Hub(
        "flwrlabs/shakespeare", None, dict(train=dict(split="train")), ("character_id", "x", "y"), excerpts
    ),
    # Its own files would take a program to read; at this revision the hub keeps a copy that does not.
    "speech-commands": Hub(
        "google/speech_commands",
        None,
        {
            "train": dict(split="train", data_files={"train": ["v0.02/train/*.parquet", "v0.02/validation/*.parquet"]}),
            "test": dict(split="test", data_files={"test": ["v0.02/test/*.parquet"]}),
        },
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
    try:
        datasets, huggingface_hub = map(importlib.import_module, ("datasets", "huggingface_hub"))
    except ImportError as error:
        raise InputError(
            f'data={name!r} could not be fetched: it needs another package ({error}): pip install "smofi[datasets]"'
        ) from error
    try:
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            # tried once, because the package would try six times, with pauses, before it gives up
            huggingface_hub.HfApi().dataset_info(entry.repository, timeout=SECONDS)
        splits = {
            split: datasets.load_dataset(entry.repository, entry.configuration, revision=entry.revision, **arguments)
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
    entry, done, total = HUB[check_choice("data", name, HUB)], 0, sum(map(len, splits.values()))

    def report(some: int) -> None:
        nonlocal done
        done += some
        progress(done, total)

    rows = {
        split: Rows(splits[split], Path(entry.repository) / str(arguments["split"]), report)
        for split, arguments in entry.arguments.items()
    }
    for one in rows.values():
        if missing := [name for name in entry.columns if name not in one.dataset.column_names]:
            wrong(one.place, f"the columns {', '.join(entry.columns)}, but it lacks {', '.join(missing)}")
        if not len(one):
            wrong(one.place, "at least one sample, but it has none")
    decoded = entry.convert(rows, entry.columns)
    return replace(decoded, about={**decoded.about, "remark": entry.remark}) if entry.remark else decoded
