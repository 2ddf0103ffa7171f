"""Several methods side by side.

one method        DIR/            is its run folder
several methods   DIR/<method>/   is a run folder each, and DIR/config.yaml names them all
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from smofi.errors import InputError
from smofi.runs.folder import CONFIG, METRICS, RunFolder
from smofi.runs.partition import PARTITION


def folders_for(path: Path, methods: Sequence[str]) -> list[RunFolder]:
    """A folder for each method, below `path` if there are several.

    >>> [folder.path.as_posix() for folder in folders_for(Path("runs/a"), ["fedavg", "fedprox(mu=0.01)+smofi"])]
    ['runs/a/fedavg', 'runs/a/fedprox-mu=0.01-smofi']
    """
    return [RunFolder(path / _folder_name(method) if len(methods) > 1 else path) for method in methods]


def folders_below(path: Path) -> list[RunFolder]:
    """The runs in the folders of a comparison, by name."""
    return [RunFolder(found.parent) for found in sorted(path.glob(f"*/{CONFIG}"))]


def folders_in(path: Path) -> list[RunFolder]:
    """The run whose folder this is, or those of a comparison.

    >>> folders_in(Path("no-such-folder"))
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    if not path.is_dir():
        raise InputError(f"folder={str(path)!r} is not accepted: expected the folder of a run, but there is none")
    own = RunFolder(path)
    if own.has_rounds:
        return [own]
    if below := folders_below(path):
        return below
    if own.has_run:  # no round is done yet
        return [own]
    raise InputError(
        f"folder={str(path)!r} is not accepted: expected the folder of a run, but it has neither a {CONFIG} nor "
        f"a {METRICS}"
    )


def partition_in(path: Path) -> Path | None:
    """The partition file of a run, or of any run of a comparison, which all have the same; None if there is none."""
    return next(iter(sorted([*path.glob(PARTITION), *path.glob(f"*/{PARTITION}")])), None)


def _folder_name(method: str) -> str:
    """A method's name as the name of a folder."""
    return re.sub(r"[^\w.=]+", "-", method).strip("-")
