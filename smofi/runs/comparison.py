"""Several runs side by side: methods, seeds, or both; and which folders a new run may take.

one method        DIR/                   is its run folder
several methods   DIR/<method>/          is a run folder each
several seeds     DIR/seed-0/<method>/   is a run folder each, of a single method, too
Where there are several, DIR/config.yaml names the methods and the seeds, and DIR/manifest.json the folders.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from smofi.errors import InputError
from smofi.files import part_of, read_regular, write_atomically
from smofi.plural import plural
from smofi.runs.folder import CONFIG, MANIFEST, PARTITION, DamagedFile, Manifest, RunFolder
from smofi.runs.writing import LOCK, is_lock


def folders_for(path: Path, methods: Sequence[str], seeds: Sequence[int] = (0,)) -> list[RunFolder]:
    """Return a folder for each method, below `path` if there are several; with several seeds, for each seed and method.

    >>> [folder.path.as_posix() for folder in folders_for(Path("runs/a"), ["fedavg", "fedprox(mu=0.01)+smofi"])]
    ['runs/a/fedavg', 'runs/a/fedprox-mu=0.01-smofi']
    >>> [folder.path.as_posix() for folder in folders_for(Path("runs/a"), ["smofi"], seeds=[0, 3])]
    ['runs/a/seed-0/smofi', 'runs/a/seed-3/smofi']
    """
    names = [re.sub(r"[^\w.=]+", "-", method).strip("-") for method in methods]
    if len(seeds) > 1:
        return [RunFolder(path / f"seed-{seed}" / name) for seed in seeds for name in names]
    return [RunFolder(path / name) for name in names] if len(names) > 1 else [RunFolder(path)]


def folders_in(path: Path) -> list[RunFolder]:
    """Return the run whose folder this is, or the runs of a comparison, seed by seed in the order of its methods.

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


def runs_below(path: Path, deep: bool = False) -> list[Path]:
    """Return the folders below this one that a run or a comparison has, by name, right below or at any depth; none if
    this is one itself."""
    if not path.is_dir() or RunFolder(path).has_run:
        return []
    found = []
    for one in sorted(path.iterdir()):
        if is_of_a_run(one / CONFIG):
            found.append(one)
        elif deep:
            found += runs_below(one, deep)
    return found


def is_of_a_run(file: Path) -> bool:
    """Tell whether a file of settings is the file of a run or a comparison."""
    return file.name == CONFIG and file.exists() and (file.parent / MANIFEST).exists()


def partition_in(path: Path) -> Path | None:
    """Return the partition file of a run, or of the first run of a comparison, whose runs all have the same if they
    were divided by a file; None if there is none."""
    found = path / next(iter(RunFolder(path).manifest().runs), "") / PARTITION
    return found if found.exists() else None


def whole_of(folder: RunFolder) -> Path:
    """Return the folder that compares this run with others; without one, the run's own."""
    for above in list(folder.path.absolute().parents)[:2]:
        with suppress(InputError):  # another program's files
            if folder.path.absolute().relative_to(above).as_posix() in RunFolder(above).manifest().runs:
                return above
    return folder.path


def resuming_command(folder: RunFolder) -> str:
    """Return the command that goes on with a run; a run that was served to clients goes on with all of them."""
    whole = whole_of(folder)
    served = RunFolder(whole).clients_file.exists()
    return f"smofi serve --resume {whole}" if served else f"smofi run --resume {folder.path}"


# --------------------------------------------------------------------------------------------------------------------
# Who takes part in a served run, by number: `clients.json` in the folder of all its runs.

LARGEST = 64 * 2**20  # bytes of a list of clients: every name that ever came is kept
MOST_NAMED = 8


@dataclass(frozen=True)
class Participant:
    """A client, how many samples it trains on, and how many it holds out."""

    name: str
    samples: int
    tests: int


def participants_in(folder: RunFolder) -> list[Participant] | None:
    """Return the clients of the run in this folder; None of a simulation."""
    whole = whole_of(folder)
    return read_participants(whole) if RunFolder(whole).clients_file.exists() else None


def read_participants(folder: Path) -> list[Participant]:
    """Return the clients as they were saved; there may be none yet."""
    path = RunFolder(folder).clients_file
    content = read_regular(path, LARGEST, "a list of clients")
    try:
        return [Participant(str(row["name"]), int(row["samples"]), int(row["tests"])) for row in json.loads(content)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedFile(f"{path} is damaged: expected a list of clients with name, samples and tests") from None


def write_participants(folder: Path, found: Sequence[Participant]) -> None:
    """Save the clients, so that they have the same numbers after a restart."""
    text = json.dumps([asdict(one) for one in found], indent=1) + "\n"
    write_atomically(RunFolder(folder).clients_file, text.encode())


def names_and_samples(found: Sequence[Participant]) -> str:
    """Name the first of the clients with what they have.

    >>> names_and_samples([Participant("hospital-a", 48, 12), Participant("hospital-b", 1, 0)])
    'hospital-a (48 samples), hospital-b (1 sample)'
    """
    named = [f"{one.name} ({plural(one.samples, 'sample')})" for one in found[:MOST_NAMED]]
    if others := found[MOST_NAMED:]:
        named.append(f"and {len(others):,} more ({plural(sum(one.samples for one in others), 'sample')})")
    return ", ".join(named) or "none yet"


# --------------------------------------------------------------------------------------------------------------------
# Which folders a new run may take: new ones, empty ones, and those where a run was ended while it started.


def check_free(path: Path, below: Sequence[Path] = ()) -> None:
    """Refuse a folder that has a run, or files of other people or programs, or that may not be written; `below` are the
    folders of the runs of a comparison."""
    try:
        reason = _taken(path, below)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise InputError(f"output={str(path)!r} is not accepted: {reason}")


def _taken(path: Path, below: Sequence[Path]) -> str:
    """Say why a new run may not have a folder; nothing if it may."""
    if path.is_dir():
        if RunFolder(path).has_run and (path / MANIFEST).is_file():
            return f"it already contains a run; expected a new folder, or: {resuming_command(RunFolder(path))}"
        strange = sorted(name for name in _others(path) if not _can_begin_anew(path / name, below))
        if strange:
            more = " and more" if len(strange) > 3 else ""
            return f"expected a new or an empty folder, but it has {', '.join(strange[:3])}{more}"
    elif path.exists() or path.is_symlink():
        return f"expected a folder, but it is a {'file' if path.exists() else 'link to nothing'}"
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return f"Permission denied: {there} may not be written"
    return ""


def _others(path: Path) -> list[str]:
    """Return what is in a folder beside the files of a run that was ended while it started."""
    folder = RunFolder(path)
    try:
        manifest = folder.manifest()
    except DamagedFile:  # another program's, or damaged
        manifest = Manifest("")
    clients = folder.clients_file
    own = {part_of(MANIFEST), part_of(clients.name)}
    if manifest.run and not any(one.rounds for one in manifest.saved):
        own |= {MANIFEST, *map(part_of, manifest.files)}
        for name in manifest.files:
            with suppress(DamagedFile):
                own.add(folder.checked(name).name)
    if is_lock(path / LOCK):
        own.add(LOCK)
    if clients.is_file() and clients.stat().st_size <= len("[]\n"):  # no client has come yet
        own.add(clients.name)
    return [entry.name for entry in path.iterdir() if entry.name not in own]


def _can_begin_anew(path: Path, below: Sequence[Path]) -> bool:
    """Tell whether the runs of a comparison that was ended while it started have not begun: the run that this folder is
    for, or all runs of a seed."""
    if path in below:
        return path.is_dir() and not _others(path)
    inside = [one for one in below if path in one.parents]
    return bool(inside) and path.is_dir() and all(_can_begin_anew(one, inside) for one in path.iterdir())
