"""Data sets from the Hugging Face hub, by its `datasets` package, converted to what their official files would give."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from smofi.data.decoded import Decoded, ReadProgress
from smofi.data.formats.columns import check_columns
from smofi.data.readers.fashion_mnist import CLASSES
from smofi.data.readers.hub_conversion import excerpts, pictures, spoken, with_raw_input
from smofi.errors import InputError, check_choice


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
