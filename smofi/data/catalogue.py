"""The data sets known by name: what each is, how its files are read, and where to get them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smofi.data.decoded import Decoded, ReadProgress
from smofi.data.readers.cifar import cifar10_files, cifar100_files, read_cifar10, read_cifar100
from smofi.data.readers.fashion_mnist import fashion_mnist_files, read_fashion_mnist
from smofi.data.readers.shakespeare import read_shakespeare, shakespeare_files
from smofi.data.readers.speech_commands import read_speech_commands, speech_commands_files
from smofi.data.readers.tiny_imagenet import read_tiny_imagenet, tiny_imagenet_files


@dataclass(frozen=True)
class Entry:
    """One data set: `files` finds the official files in a folder, `read` decodes them, `get` says where to get them."""

    description: str
    files: Callable[[Path], list[Path]]
    read: Callable[[Path, ReadProgress], Decoded]
    get: str


EMBEDDED = {"digits": "1,797 handwritten digits, 8x8 grey, 10 classes; comes with scikit-learn, no download"}

CATALOGUE: dict[str, Entry] = {
    "cifar10": Entry(
        "60,000 photographs, 32x32 colour, 10 classes",
        cifar10_files,
        read_cifar10,
        "cifar-10-binary.tar.gz or cifar-10-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "cifar100": Entry(
        "60,000 photographs, 32x32 colour, 100 classes",
        cifar100_files,
        read_cifar100,
        "cifar-100-binary.tar.gz or cifar-100-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "tiny-imagenet": Entry(
        "110,000 photographs, 64x64 colour, 200 classes",
        tiny_imagenet_files,
        read_tiny_imagenet,
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip, unpacked",
    ),
    "shakespeare": Entry(
        "the plays by speaking role, 80 characters in and the next one out; divided by nature",
        shakespeare_files,
        read_shakespeare,
        "the json files that LEAF writes for shakespeare (https://github.com/TalwalkarLab/leaf), or a text per role",
    ),
    "speech-commands": Entry(
        "105,829 spoken words of one second as 49x40 log-mel spectrograms, 35 classes; by speaker if you like",
        speech_commands_files,
        read_speech_commands,
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz, unpacked",
    ),
    "fashion-mnist": Entry(
        "70,000 articles of clothing, 28x28 grey, 10 classes",
        fashion_mnist_files,
        read_fashion_mnist,
        "the four idx files of https://github.com/zalandoresearch/fashion-mnist, or Debian's dataset-fashion-mnist",
    ),
}


def descriptions() -> dict[str, str]:
    """A line about each data set that is known by name.

    >>> list(descriptions())[:2]
    ['digits', 'cifar10']
    """
    return {**EMBEDDED, **{name: entry.description for name, entry in CATALOGUE.items()}}
