"""The data sets known by name: what each is, how its files are read, and where to get them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from smofi.errors import refuse, refuse_unwanted
from smofi.later import function_later

if TYPE_CHECKING:
    from smofi.data.decoded import DataFiles


@dataclass(frozen=True)
class CatalogueEntry:
    """One data set: `find` finds the official files in a folder, `get` says where to get them."""

    description: str
    find: Callable[[Path], DataFiles]
    get: str


EMBEDDED = {"digits": "1,797 handwritten digits, 8x8 grey, 10 classes; comes with smofi, no download"}

CATALOGUE: dict[str, CatalogueEntry] = {
    "cifar10": CatalogueEntry(
        "60,000 photographs, 32x32 colour, 10 classes",
        function_later("smofi.data.cifar", "find_cifar10"),
        "cifar-10-binary.tar.gz or cifar-10-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "cifar100": CatalogueEntry(
        "60,000 photographs, 32x32 colour, 100 classes",
        function_later("smofi.data.cifar", "find_cifar100"),
        "cifar-100-binary.tar.gz or cifar-100-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
    ),
    "tiny-imagenet": CatalogueEntry(
        "110,000 photographs, 64x64 colour, 200 classes",
        function_later("smofi.data.tiny_imagenet", "find_tiny_imagenet"),
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip, unpacked",
    ),
    "shakespeare": CatalogueEntry(
        "the plays by speaking role, 80 characters in and the next one out; already divided by role",
        function_later("smofi.data.shakespeare", "find_shakespeare"),
        "the json files that LEAF writes for shakespeare (https://github.com/TalwalkarLab/leaf), or a text per role",
    ),
    "speech-commands": CatalogueEntry(
        "105,829 spoken words of one second as 49x40 log-mel spectrograms, 35 classes; can be divided by speaker",
        function_later("smofi.data.speech_commands", "find_speech_commands"),
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz, unpacked",
    ),
    "fashion-mnist": CatalogueEntry(
        "70,000 articles of clothing, 28x28 grey, 10 classes",
        function_later("smofi.data.idx_files", "find_fashion_mnist"),
        "the four idx files of https://github.com/zalandoresearch/fashion-mnist, or Debian's dataset-fashion-mnist",
    ),
}


OWN = {
    "folder": "pictures or wav files, a sub-folder per class, or per client and in it per class; texts; idx files",
    "npz": "numpy arrays x and y, perhaps x_test and y_test, and client",
    "csv": "numeric columns, a label, perhaps client",
    "python": "your own function, such as python:module:function",
}
"""The user's own data, by what comes before the colon."""


def descriptions() -> dict[str, str]:
    """Describe each data set that is known by name in a line."""
    return {**EMBEDDED, **{name: entry.description for name, entry in CATALOGUE.items()}}


def check_data_name(field: str, name: Any) -> str:
    """Accept a name that `load` knows, or the user's own data.

    >>> check_data_name("data", "folder:pictures")
    'folder:pictures'
    """
    names = [*EMBEDDED, *CATALOGUE]
    scheme, _, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if isinstance(name, str) and (name in names or (scheme in OWN and rest)):
        return name
    near = [*_as_own(name), *difflib.get_close_matches(name, names, n=1)] if isinstance(name, str) else []
    own = ", ".join(f"{scheme}:{'module:function' if scheme == 'python' else 'PATH'}" for scheme in OWN)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    refuse(field, name, f"one of {', '.join(names)}, {own}{hint}")


def _as_own(path: str) -> list[str]:
    """Write a bare path as data: by its ending, or as a folder if it is one."""
    ending = PurePath(path).suffix.removeprefix(".")
    scheme = ending if ending in ("csv", "npz") else "folder" if "\0" not in path and os.path.isdir(path) else None
    return [f"{scheme}:{path}"] if scheme else []


def check_columns(name: str, label: str | None, client: str | None) -> None:
    """Refuse columns named by the user where there are none to name."""
    for field, value in (("label_column", label), ("client_column", client)):
        if value is not None and not name.startswith("csv:"):
            refuse_unwanted(field, value, f"only csv:PATH has columns, and the data is {name}")
