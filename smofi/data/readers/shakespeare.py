"""Shakespeare by speaking role: 80 characters in, the next one out. Three layouts are read:

LEAF      train/*.json and test/*.json, or all_data*.json: excerpts by user, already cut out
roles     *.json or *.json.gz, a list of {"play": ..., "role": ..., "text": ...}
texts     PLAY_ROLE.txt, a file per role
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from smofi.data.decoded import DataFiles, Decoded, ReadProgress
from smofi.data.formats.files import listing, read_json, wrong
from smofi.data.readers.leaf import Excerpts
from smofi.data.readers.roles import Roles
from smofi.data.readers.texts import read_text

MOST_JSON, MOST_UNPACKED = 2**30, 2**28
"""Bytes of a file. All of the plays are 5.6 million characters; the largest file LEAF writes has 400 MB."""

PLACES = ("", "data", "shakespeare", "shakespeare/data", "raw_data/by_play_and_character")
"""Where in the given folder the files may be: LEAF writes into the second and the last."""


def find_shakespeare(folder: Path) -> DataFiles:
    """Excerpts of 80 characters and the one after each, by role.

    The files are in a folder or one of LEAF's folders in it; or it is a single file itself.
    """
    files = _find(folder)
    return DataFiles([path for path, _ in files], partial(_read, folder, files))


def _read(folder: Path, files: list[tuple[Path, str | None]], progress: ReadProgress) -> Decoded:
    excerpts, roles = Excerpts(), Roles()
    for index, (path, split) in enumerate(files):
        report = _share_of(progress, index, len(files))
        if path.suffix == ".txt":
            roles.add(_name_of(path), read_text(path), path)
            report(1, 1)
            continue
        document = read_json(path, MOST_UNPACKED if path.suffix == ".gz" else MOST_JSON, "a json file")
        if split is None and isinstance(document, list):
            _add_roles(roles, document, path, report)
        else:
            excerpts.add(document, path, split, report)
        del document  # before the next one is read
    if excerpts.owners and roles.names:
        wrong(folder, "either excerpts as LEAF writes them or texts by role, but there are both")
    return excerpts.decoded(folder) if excerpts.owners else roles.decoded(folder)


def _find(folder: Path) -> list[tuple[Path, str | None]]:
    """The files and the split each belongs to, None if it has both."""
    if os.path.isfile(folder) and folder.name.endswith((".json", ".json.gz", ".txt")):
        return [(folder, None)]
    for place in (folder / name for name in PLACES):
        train, test = (_files(place / split, (".json", ".json.gz")) for split in ("train", "test"))
        if train and test:
            return [*((path, "train") for path in train), *((path, "test") for path in test)]
        if train or test:
            wrong(place, f"*.json in train and in test, but there is none in {'test' if train else 'train'}")
        here = _files(place, (".json", ".json.gz", ".txt"))
        loose = [path for path in here if path.suffix != ".txt"]
        whole = [path for path in loose or _files(place / "all_data", (".json",)) if path.name.startswith("all_data")]
        texts = [path for path in here if path.suffix == ".txt" and "_" in path.name]
        if both := whole or loose or texts:
            return [(path, None) for path in both]
    wrong(
        folder,
        "train/*.json and test/*.json or all_data*.json as LEAF writes them, a list of roles as *.json or *.json.gz, "
        f"or PLAY_ROLE.txt, in it or in {', '.join(PLACES[1:])}, but there is none",
    )


def _files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    files = listing(folder)[1] if os.path.isdir(folder) else []
    return [path for path in files if path.name.endswith(endings)]


def _add_roles(roles: Roles, document: list[Any], path: Path, progress: ReadProgress) -> None:
    for number, role in enumerate(document, 1):
        if not isinstance(role, dict):
            wrong(path, f"objects with play, role and text, but number {number:,} is a {type(role).__name__}")
        for name in ("play", "role"):
            if not isinstance(role.get(name), str) or not role[name]:
                wrong(path, f"{name!r} of number {number:,} to be a name")
        text = role.get("text")
        speeches: list[Any] = text if isinstance(text, list) else [text]
        if not all(isinstance(speech, str) for speech in speeches):
            wrong(path, f"'text' of number {number:,} to be a string or a list of strings")
        roles.add(f"{role['play']}: {role['role']}", "\n".join(speeches), path)
        progress(number, len(document))


def _name_of(path: Path) -> str:
    """HAMLET_OPHELIA is HAMLET: OPHELIA; with more than one underscore, it is not known where the play ends."""
    return path.stem.replace("_", ": ") if path.stem.count("_") == 1 else path.stem


def _share_of(progress: ReadProgress, index: int, files: int) -> ReadProgress:
    """Progress within one of several files, reported once per percent."""
    reported = -1

    def tell(done: int, total: int) -> None:
        nonlocal reported
        if (percent := 100 * done // total) > reported:
            reported = percent
            progress(100 * index + percent, 100 * files)

    return tell
