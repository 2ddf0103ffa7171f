"""Several runs side by side: methods, seeds, or both.

one method        DIR/                   is its run folder
several methods   DIR/<method>/          is a run folder each
several seeds     DIR/seed-0/<method>/   is a run folder each, of a single method, too
Where there are several, DIR/config.yaml names the methods and the seeds, and DIR/manifest.json the folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from smofi.errors import InputError
from smofi.runs.folder import CONFIG, RunFolder
from smofi.runs.manifest import MANIFEST, DamagedFile
from smofi.runs.partition import PARTITION


def folders_for(path: Path, methods: Sequence[str], seeds: Sequence[int] = (0,)) -> list[RunFolder]:
    """A folder for each method, below `path` if there are several; with several seeds, for each method and seed.

    >>> [folder.path.as_posix() for folder in folders_for(Path("runs/a"), ["fedavg", "fedprox(mu=0.01)+smofi"])]
    ['runs/a/fedavg', 'runs/a/fedprox-mu=0.01-smofi']
    >>> [folder.path.as_posix() for folder in folders_for(Path("runs/a"), ["smofi"], seeds=[0, 3])]
    ['runs/a/seed-0/smofi', 'runs/a/seed-3/smofi']
    """
    if len(seeds) > 1:
        return [RunFolder(path / f"seed-{seed}" / _folder_name(method)) for seed in seeds for method in methods]
    return [RunFolder(path / _folder_name(method) if len(methods) > 1 else path) for method in methods]


def folders_in(path: Path) -> list[RunFolder]:
    """The run whose folder this is, or those of a comparison, seed by seed in the order of its methods.

    >>> folders_in(Path("no-such-folder"))
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    own = RunFolder(path)
    try:
        missing = "" if own.has_run else f"it has no {CONFIG}" if path.is_dir() else "it is a file"
        missing = missing if path.exists() else "there is none"
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        missing = getattr(error, "strerror", None) or str(error)
    if missing:
        raise InputError(f"folder={str(path)!r} is not accepted: expected the folder of a run, but {missing}")
    below = own.manifest().runs
    for name, run in below.items():
        one = RunFolder(path / name)
        if not one.has_run:
            raise DamagedFile(f"{one.path} is missing, or has no {CONFIG}: it is one of the runs that {path} compares")
        if one.manifest().run != run:
            raise DamagedFile(f"{one.path} is another run than the one that {path} compares", "Put that one back")
    return [RunFolder(path / name) for name in below] or [own]


def runs_below(path: Path) -> list[Path]:
    """The folders right below this one that a run or a comparison has; none if this is one itself."""
    if not path.is_dir() or RunFolder(path).has_run:
        return []
    return sorted(one for one in path.iterdir() if (one / CONFIG).exists() and (one / MANIFEST).exists())


def is_of_a_run(file: Path) -> bool:
    """Whether a file of settings is that of a run or a comparison."""
    return file.name == CONFIG and (file.parent / MANIFEST).exists()


def partition_in(path: Path) -> Path | None:
    """The partition file of a run, or of the first run of a comparison; None if there is none. Those that were divided
    by a file all have the same."""
    own = RunFolder(path)
    inside = path / next(iter(own.manifest().runs), "")
    return inside / PARTITION if (inside / PARTITION).exists() else None


def whole_of(folder: RunFolder) -> Path:
    """The folder that compares this run with others; without one, the run's own."""
    for above in list(folder.path.absolute().parents)[:2]:
        try:
            if folder.path.absolute().relative_to(above).as_posix() in RunFolder(above).manifest().runs:
                return above
        except InputError:  # another program's files
            continue
    return folder.path


def resuming_command(folder: RunFolder) -> str:
    """The command that goes on with a run; one that was served to clients goes on as a whole."""
    whole = whole_of(folder)
    if RunFolder(whole).clients_file.exists():
        return f"smofi serve --resume {whole}"
    return f"smofi run --resume {folder.path}"


def _folder_name(method: str) -> str:
    """A method's name as the name of a folder."""
    return re.sub(r"[^\w.=]+", "-", method).strip("-")
