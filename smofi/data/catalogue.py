"""The data sets known by name: what each is, how its files are read, and where to get them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smofi.data.decoded import DataFiles
from smofi.data.readers.cifar import find_cifar10, find_cifar100
from smofi.data.readers.fashion_mnist import find_fashion_mnist
from smofi.data.readers.shakespeare import find_shakespeare
from smofi.data.readers.speech_commands import find_speech_commands
from smofi.data.readers.tiny_imagenet import find_tiny_imagenet


@dataclass(frozen=True)
class CatalogueEntry:
    """One data set: `find` finds the official files in a folder, `get` says where to get them."""

    description: str
    find: Callable[[Path], DataFiles]
    get: str


EMBEDDED = {"digits": "1,797 handwritten digits, 8x8 grey, 10 classes; comes with scikit-learn, no download"}

CATALOGUE: dict[str, CatalogueEntry] = {
    "cifar10": CatalogueEntry(
        "60,000 photographs, 32x32 colour, 10 classes",
        find_cifar10,
        "cifar-10-binary.tar.gz or cifar-10-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "cifar100": CatalogueEntry(
        "60,000 photographs, 32x32 colour, 100 classes",
        find_cifar100,
        "cifar-100-binary.tar.gz or cifar-100-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "tiny-imagenet": CatalogueEntry(
        "110,000 photographs, 64x64 colour, 200 classes",
        find_tiny_imagenet,
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip, unpacked",
    ),
    "shakespeare": CatalogueEntry(
        "the plays by speaking role, 80 characters in and the next one out; already divided by role",
        find_shakespeare,
        "the json files that LEAF writes for shakespeare (https://github.com/TalwalkarLab/leaf), or a text per role",
    ),
    "speech-commands": CatalogueEntry(
        "105,829 spoken words of one second as 49x40 log-mel spectrograms, 35 classes; can be divided by speaker",
        find_speech_commands,
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz, unpacked",
    ),
    "fashion-mnist": CatalogueEntry(
        "70,000 articles of clothing, 28x28 grey, 10 classes",
        find_fashion_mnist,
        "the four idx files of https://github.com/zalandoresearch/fashion-mnist, or Debian's dataset-fashion-mnist",
    ),
}


def descriptions() -> dict[str, str]:
    """A line about each data set that is known by name.

    >>> list(descriptions())[:2]
    ['digits', 'cifar10']
    """
    return {**EMBEDDED, **{name: entry.description for name, entry in CATALOGUE.items()}}
