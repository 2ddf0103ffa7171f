"""Who takes part in a served run, by number: `clients.json` in the folder of all its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from smofi.errors import InputError
from smofi.files import read_regular, write_atomically
from smofi.plural import plural
from smofi.runs.comparison import whole_of
from smofi.runs.folder import RunFolder
from smofi.runs.manifest import DamagedFile

LARGEST = 64 * 2**20
"""Bytes of a list of clients: every name that ever came is kept."""

MOST_NAMED = 8


@dataclass(frozen=True)
class Participant:
    """A client, how many samples it trains on, and how many it holds out."""

    name: str
    samples: int
    tests: int


def participants_in(folder: RunFolder) -> list[Participant] | None:
    """The clients of the run in this folder; None of a simulation."""
    whole = whole_of(folder)
    return read_participants(whole) if RunFolder(whole).clients_file.exists() else None


def read_participants(folder: Path) -> list[Participant]:
    """As they were saved; there may be none yet."""
    path = RunFolder(folder).clients_file
    try:
        rows = json.loads(read_regular(path, LARGEST, "a list of clients"))
        return [Participant(str(row["name"]), int(row["samples"]), int(row["tests"])) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedFile(f"{path} is damaged: expected a list of clients with name, samples and tests") from None


def write_participants(folder: Path, found: Sequence[Participant]) -> None:
    """Save them, so that clients have the same numbers after a restart."""
    text = json.dumps([asdict(one) for one in found], indent=1) + "\n"
    write_atomically(RunFolder(folder).clients_file, text.encode())


def names_and_samples(found: Sequence[Participant]) -> str:
    """The first of them with what they have.

    >>> names_and_samples([Participant("hospital-a", 48, 12), Participant("hospital-b", 1, 0)])
    'hospital-a (48 samples), hospital-b (1 sample)'
    """
    named = [f"{one.name} ({plural(one.samples, 'sample')})" for one in found[:MOST_NAMED]]
    others = found[MOST_NAMED:]
    if others:
        named.append(f"and {len(others):,} more ({plural(sum(one.samples for one in others), 'sample')})")
    return ", ".join(named) or "none yet"
